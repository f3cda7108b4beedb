#include "engine/base/read_stream.h"

#include <istream>

namespace skald {

std::string rest_of(std::istream& in) {
  constexpr size_t kStep = 1 << 16;
  std::string text;
  while (in) {
    const size_t before = text.size();
    text.resize(before + kStep);
    in.read(text.data() + before, kStep);
    text.resize(before + static_cast<size_t>(in.gcount()));
  }
  return text;
}

}  // namespace skald
