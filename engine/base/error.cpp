#include "engine/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace skald {

void check_failed(const char* what, const std::source_location& where) {
  std::fprintf(stderr,
               "skald: internal error: %s (%s:%u)\nThis is a bug in skald; please report it.\n",
               what, where.file_name(), where.line());
  std::abort();
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);  // row[j]: distance from a's prefix to b's first j letters
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace skald
