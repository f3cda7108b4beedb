#include <algorithm>
#include <array>

#include "tokenizer/bpe/pre_tokenizer.h"

// The names in a GGUF's tokenizer.ggml.pre, and the rules of the tokenizer.json that such a file
// was made from.
namespace skald {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigitPattern = R"(\p{N})";

struct Known {
  std::string_view name;
  std::array<std::string_view, 2> patterns;  // applied in order; "": none
  bool nfc = false, ignore_merges = false, add_bos = false;
};

constexpr Known kKnown[] = {
    {"gpt-2", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"mpt", {kGpt2Pattern}},
    {"olmo", {kGpt2Pattern}},
    {"llama-bpe", {kLlama3Pattern}, false, true, true},
    {"llama3", {kLlama3Pattern}, false, true, true},
    {"llama-v3", {kLlama3Pattern}, false, true, true},
    {"dbrx", {kLlama3Pattern}},
    {"smaug-bpe", {kLlama3Pattern}},
    {"qwen2", {kQwen2Pattern}, true},
    {"deepseek-r1-qwen", {kQwen2Pattern}},
    {"stablelm2", {kQwen2Pattern}},
    {"tekken", {kTekkenPattern}, false, true, true},
    {"smollm", {kDigitPattern, kGpt2Pattern}},
    {"starcoder", {kDigitPattern, kGpt2Pattern}},
    {"refact", {kDigitPattern, kGpt2Pattern}},
    {"command-r", {kDigitPattern, kGpt2Pattern}},
    {"codeshell", {kDigitPattern, kGpt2Pattern}},
    {"exaone", {kDigitPattern, kGpt2Pattern}},
};

}  // namespace

std::unique_ptr<NamedPreTokenizer> named_pre_tokenizer(std::string_view name,
                                                       const std::string& source) {
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& k) { return k.name == name; });
  if (known == std::end(kKnown)) return nullptr;
  auto out = std::make_unique<NamedPreTokenizer>();
  for (const std::string_view pattern : known->patterns) {
    if (pattern.empty()) continue;
    out->rules.add(PreTokenizer::Split{Regex(pattern, source), SplitBehavior::Isolated, false});
  }
  out->nfc = known->nfc;
  out->ignore_merges = known->ignore_merges;
  out->add_bos = known->add_bos;
  return out;
}

std::string_view pre_tokenizer_name(const std::vector<std::string>& patterns, bool nfc,
                                    bool ignore_merges) {
  const auto same = [&](const Known& known) {
    const auto end = std::find(known.patterns.begin(), known.patterns.end(), "");
    return known.nfc == nfc && known.ignore_merges == ignore_merges &&
           std::equal(known.patterns.begin(), end, patterns.begin(), patterns.end());
  };
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown), same);
  return known == std::end(kKnown) ? std::string_view() : known->name;
}

}  // namespace skald
