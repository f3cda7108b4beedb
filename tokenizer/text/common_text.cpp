#include "tokenizer/text/common_text.h"

#include <algorithm>

namespace skald {

CommonText common_text(const Tokenizer& tokenizer, std::span<const int32_t> a,
                       std::span<const int32_t> b) {
  CommonText at, common;
  // Text of tokens before `at` that the other list has not matched yet
  std::string_view rest_a, rest_b;
  while (true) {
    if (rest_a.empty() && rest_b.empty()) {
      common = at;
      while (at.a < a.size() && at.b < b.size() && a[at.a] == b[at.b]) ++at.a, ++at.b;
      if (at.a != common.a) continue;
    }
    // The list that is behind takes its next token. A token without text, such as a control token,
    // equals only itself.
    if (rest_a.empty()) {
      if (at.a == a.size()) return common;
      rest_a = tokenizer.piece_bytes(a[at.a++]);
    }
    if (rest_b.empty()) {
      if (at.b == b.size()) return common;
      rest_b = tokenizer.piece_bytes(b[at.b++]);
    }
    const size_t length = std::min(rest_a.size(), rest_b.size());
    if (length == 0 || rest_a.substr(0, length) != rest_b.substr(0, length)) return common;
    rest_a.remove_prefix(length);
    rest_b.remove_prefix(length);
  }
}

}  // namespace skald
