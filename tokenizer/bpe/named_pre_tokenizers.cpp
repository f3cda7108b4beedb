#include <algorithm>
#include <array>

#include "tokenizer/bpe/pre_tokenizer.h"

// The names that a GGUF's tokenizer.ggml.pre can have, and the rules of the tokenizer.json behind
// each name.
namespace skald {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// OpenAI's o200k: Tekken's words with contractions behind them, and numbers of up to three digits.
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Kimi K2: o200k's words without Chinese characters, which make words of their own.
constexpr std::string_view kKimiPattern =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 3.5: a combining mark belongs to its letter.
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailingPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

constexpr std::string_view kDigitPattern = R"(\p{N})";
constexpr std::string_view kNumberPattern = R"(\p{N}+)";
constexpr std::string_view kThreeDigitsPattern = R"(\p{N}{1,3})";
// Digits in threes, counted from the number's end.
constexpr std::string_view kThousandsPattern = R"(\d{1,3}(?=(?:\d{3})*\b))";

// DeepSeek's first models cut a text in passes: line ends, words, marks, white space at the end,
// Chinese, Japanese and Korean characters, numbers.
constexpr std::string_view kLineEndPattern = R"([\r\n])";
constexpr std::string_view kFinalSpacePattern = R"(\s+$)";
constexpr std::string_view kDeepseekCjkPattern =
    R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::string_view kDeepseekMarksPattern =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekCoderWordPattern = R"(\s?\p{L}+)";
constexpr std::string_view kDeepseekCoderMarksPattern = R"(\s?\p{P}+)";
// Letters of the scripts that have capitals, in the ranges that the models' own files list.
constexpr std::string_view kDeepseekWordPattern =
    R"(\s?[)"
    R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"
    R"(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386})"
    R"(\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f})"
    R"(\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba})"
    R"(\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15})"
    R"(\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b})"
    R"(\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4})"
    R"(\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17})"
    R"(\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
// DeepSeek V3: numbers in threes, Chinese and Japanese characters, words.
constexpr std::string_view kDeepseek3CjkPattern =
    R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view kDeepseek3WordPattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Known {
  std::string_view name;
  std::array<std::string_view, 6> patterns;  // applied in order; "": none
  bool nfc = false, ignore_merges = false, add_bos = false;
};

// Several names may have the same rules; pre_tokenizer_name() returns the first of them.
constexpr Known kKnown[] = {
    {"gpt-2", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"mpt", {kGpt2Pattern}},
    {"olmo", {kGpt2Pattern}},
    {"jais", {kGpt2Pattern}},
    {"exaone4", {kGpt2Pattern}},
    {"gigachat", {kGpt2Pattern}},
    {"a.x-4.0", {kGpt2Pattern}},
    {"mellum", {kGpt2Pattern}},
    {"trillion", {kGpt2Pattern}},
    {"granite-docling", {kGpt2Pattern}},
    {"jina-es", {kGpt2Pattern}},
    {"jina-de", {kGpt2Pattern}},
    {"jina-v1-en", {kGpt2Pattern}},
    {"roberta-bpe", {kGpt2Pattern}},
    {"llama-bpe", {kLlama3Pattern}, false, true, true},
    {"llama3", {kLlama3Pattern}, false, true, true},
    {"llama-v3", {kLlama3Pattern}, false, true, true},
    {"falcon3", {kLlama3Pattern}, false, true, true},
    {"falcon-h1", {kLlama3Pattern}, false, true, true},
    {"pixtral", {kLlama3Pattern}, false, true, true},
    {"midm-2.0", {kLlama3Pattern}, false, true, true},
    {"lfm2", {kLlama3Pattern}, false, true, true},
    {"jina-v5-nano", {kLlama3Pattern}, false, true, true},
    {"minicpm5", {kThreeDigitsPattern, kLlama3Pattern}, false, true},
    {"dbrx", {kLlama3Pattern}},
    {"smaug-bpe", {kLlama3Pattern}},
    {"glm4", {kLlama3Pattern}, false, true},
    {"glm5", {kLlama3Pattern}, false, true},
    {"chatglm-bpe", {kLlama3Pattern}},
    {"qwen2", {kQwen2Pattern}, true},
    {"deepseek-r1-qwen", {kQwen2Pattern}},
    {"kormo", {kQwen2Pattern}},
    {"f2llmv2", {kQwen2Pattern}},
    {"megrez", {kQwen2Pattern}},
    {"stablelm2", {kQwen2Pattern}},
    {"hunyuan", {kQwen2Pattern}},
    {"solar-open", {kQwen2Pattern}},
    {"grok-2", {kQwen2Pattern}},
    {"qwen35", {kQwen35Pattern}, true},
    {"tekken", {kTekkenPattern}, false, true, true},
    {"gpt-4o", {kO200kPattern}},
    {"llama4", {kO200kPattern}},
    {"kanana2", {kO200kPattern}},
    {"talkie", {kO200kPattern}},
    {"minimax-m2", {kO200kPattern}},
    {"kimi-k2", {kKimiPattern}},
    {"tiny_aya", {kThousandsPattern, kO200kPattern}},
    {"cohere2moe", {kThousandsPattern, kO200kPattern}},
    {"smollm", {kDigitPattern, kGpt2Pattern}},
    {"starcoder", {kDigitPattern, kGpt2Pattern}},
    {"refact", {kDigitPattern, kGpt2Pattern}},
    {"command-r", {kDigitPattern, kGpt2Pattern}},
    {"codeshell", {kDigitPattern, kGpt2Pattern}},
    {"exaone", {kDigitPattern, kGpt2Pattern}},
    {"minerva-7b", {kDigitPattern, kGpt2Pattern}},
    {"mellum2", {kDigitPattern, kGpt2Pattern}},
    {"falcon", {kMarksPattern, kGpt2Pattern, kThreeAsciiDigitsPattern}},
    {"seed-coder", {kSeedCoderPattern}},
    {"bailingmoe", {kBailingPattern}},
    {"bailingmoe2", {kBailingPattern}},
    {"llada-moe", {kBailingPattern}},
    {"deepseek-v3", {kThreeDigitsPattern, kDeepseek3CjkPattern, kDeepseek3WordPattern}},
    {"hunyuan-dense", {kThreeDigitsPattern, kDeepseek3CjkPattern, kDeepseek3WordPattern}},
    {"joyai-llm", {kThreeDigitsPattern, kDeepseek3CjkPattern, kDeepseek3WordPattern}},
    {"hy_v4", {kThreeDigitsPattern, kDeepseek3CjkPattern, kDeepseek3WordPattern}},
    {"deepseek-llm",
     {kLineEndPattern, kDeepseekWordPattern, kDeepseekMarksPattern, kFinalSpacePattern,
      kDeepseekCjkPattern, kNumberPattern}},
    {"deepseek-coder",
     {kLineEndPattern, kDeepseekCoderWordPattern, kDeepseekCoderMarksPattern, kDeepseekCjkPattern,
      kDigitPattern}},
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
