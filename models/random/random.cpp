#include "models/random/random.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "models/random/random_config.h"
#include "models/random/random_shapes.h"
#include "models/random/random_types.h"
#include "models/random/random_weights.h"

namespace skald {
namespace {

template <class Table>
auto names(const Table& table) {
  std::vector<std::string_view> all;
  all.reserve(std::size(table));
  for (const auto& row : table) all.push_back(row.name);
  return all;
}

// The row of this name, in any case.
template <class Table>
const auto& find_row(const Table& table, std::string_view name, std::string_view what) {
  const auto is_same = [](unsigned char a, unsigned char b) { return a == std::tolower(b); };
  std::string known;
  for (const auto& row : table) {
    if (std::ranges::equal(std::string_view(row.name), name, is_same)) return row;
    known += concat(known.empty() ? "" : ", ", row.name);
  }
  fail(Exit::Usage, "unknown ", what, " '", name, "'; these are: ", known);
}

Model make_model(const RandomShape& shape, std::string_view type_name, RandomFill fill) {
  const RandomType& type = find_row(all_random_types(), type_name, "type");
  return {random_config(shape), random_weights(shape, type, fill), shape.family->build};
}

}  // namespace

std::vector<std::string_view> random_shapes() { return names(kRandomShapes); }
std::vector<std::string_view> random_types() { return names(all_random_types()); }

const RandomShape& random_shape(std::string_view name) {
  return find_row(kRandomShapes, name, "shape");
}

Model random_model(const RandomShape& shape, std::string_view type) {
  return make_model(shape, type, RandomFill::Noise);
}

Model random_model(std::string_view shape, std::string_view type) {
  return random_model(random_shape(shape), type);
}

Model shape_model(std::string_view shape, std::string_view type) {
  return make_model(random_shape(shape), type, RandomFill::Nothing);
}

}  // namespace skald
