// Cuts a text into the parts that a BPE merges each for itself: rules in the words of
// tokenizer.json, applied one after the other. Immutable once filled; any number of threads may use
// it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/text/regex.h"

namespace skald {

// What becomes of a match.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

class PreTokenizer {
 public:
  struct Split {
    Regex pattern;
    SplitBehavior behavior = SplitBehavior::Isolated;
    bool invert = false;  // what lies between matches is the match
  };
  // " " goes before each part that does not begin with it.
  struct PrefixSpace {};
  // Spaces become `symbol`; each part gets one in front where it has none, or only the part that
  // starts the text.
  struct Metaspace {
    enum class Prefix { Never, First, Always };
    std::string symbol = "\xE2\x96\x81";
    Prefix prefix = Prefix::Always;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace>;

  void add(Step step) { steps_.push_back(std::move(step)); }

  // A text and its parts in order; they need not cover it.
  struct Parts {
    std::string_view text;
    std::vector<Span> spans;
    std::string own;  // what text refers to where a step changed it
  };
  struct Place {
    bool starts_text;  // it is the beginning of all text
    bool prefix;       // prefixes are put
  };
  // text is valid UTF-8, shorter than 1 GB; the result refers to it.
  std::unique_ptr<Parts> cut(std::string_view text, Place place) const;

 private:
  std::vector<Step> steps_;
};

// The patterns that models share, and that a GGUF names only.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// By a GGUF's tokenizer.ggml.pre; nullptr for a name that is not known.
struct NamedPreTokenizer {
  PreTokenizer rules;
  bool nfc = false, ignore_merges = false, add_bos = false;
};
std::unique_ptr<NamedPreTokenizer> named_pre_tokenizer(std::string_view name,
                                                       const std::string& source);
// The other way round: the name of rules that consist of such patterns, one after the other; "" for
// those that have none.
std::string_view pre_tokenizer_name(const std::vector<std::string>& patterns, bool nfc,
                                    bool ignore_merges);

}  // namespace skald
