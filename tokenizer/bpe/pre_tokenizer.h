// Cuts a text into parts that BPE then merges separately. The rules are those of tokenizer.json and
// are applied in order. Immutable once filled; any number of threads may use it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/text/regex.h"

namespace skald {

// What happens to a match of a Split.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

class PreTokenizer {
 public:
  struct Split {
    Regex pattern;
    SplitBehavior behavior = SplitBehavior::Isolated;
    bool invert = false;  // the text between matches counts as the match
  };
  // Puts " " before each part that does not begin with it.
  struct PrefixSpace {};
  // Replaces spaces by `symbol`. Always: each part without a leading symbol gets one. First: only
  // the part that starts the text.
  struct Metaspace {
    enum class Prefix { Never, First, Always };
    std::string symbol = "\xE2\x96\x81";
    Prefix prefix = Prefix::Always;
  };
  // Writes each byte of the parts as its character of the byte alphabet, for the steps after this
  // one. What they cut may begin or end inside a character of the text.
  struct ByteAlphabet {};
  using Step = std::variant<Split, PrefixSpace, Metaspace, ByteAlphabet>;

  void add(Step step) { steps_.push_back(std::move(step)); }

  // A text and its parts in order. The parts need not cover the text. After ByteAlphabet they are
  // bytes again, not its characters.
  struct Parts {
    std::string_view text;
    std::vector<Span> spans;
    std::string own;  // storage of `text` if a step changed it
  };
  struct Place {
    bool starts_text;  // true: this is the start of the whole text
    bool prefix;       // true: add prefixes
  };
  // `text` must be valid UTF-8 and shorter than 1 GB; the result refers to it.
  std::unique_ptr<Parts> cut(std::string_view text, Place place) const;

 private:
  std::vector<Step> steps_;
};

// Patterns that several models share, and that a GGUF only names.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Runs of punctuation and of ASCII's symbols, and digits in threes, counted from the number's
// start.
inline constexpr std::string_view kMarksPattern = R"([\p{P}$+<=>^~|`]+)";
inline constexpr std::string_view kThreeAsciiDigitsPattern = "[0-9][0-9][0-9]";

// Looks up a GGUF's tokenizer.ggml.pre; nullptr: the name is unknown.
struct NamedPreTokenizer {
  PreTokenizer rules;
  bool nfc = false, ignore_merges = false, add_bos = false;
};
std::unique_ptr<NamedPreTokenizer> named_pre_tokenizer(std::string_view name,
                                                       const std::string& source);
// The inverse: the name of the rules that consist of these patterns in order; "" if there is none.
std::string_view pre_tokenizer_name(const std::vector<std::string>& patterns, bool nfc,
                                    bool ignore_merges);

}  // namespace skald
