// The normalization steps of a tokenizer.json, applied to a text before anything else: Unicode
// normalization, a prefix, replacements. Immutable once filled; any number of threads may use it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/text/regex.h"

namespace skald {

enum class UnicodeForm { Nfc, Nfd, Nfkc, Nfkd };

// Expects valid UTF-8. Takes linear time, except for sorting runs of combining marks.
std::string unicode_normalized(std::string_view text, UnicodeForm form);

class Normalizer {
 public:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Regex pattern;
    std::string by;
  };
  using Step = std::variant<UnicodeForm, Prepend, Replace>;

  void add(Step step);
  bool empty() const { return steps_.empty(); }

  // `prefix`: whether Prepend steps apply.
  std::string apply(std::string text, bool prefix) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace skald
