// The input is a grammar: a JSON schema, a regular expression or GBNF, as its first byte says.
// Tokens that the masks allow are accepted one after the other. A mask must allow at least one
// token, and the matcher must accept it.
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/matcher.h"
#include "engine/grammar/regex.h"
#include "tests/fuzz/driver.h"

namespace {

using namespace skald;

grammar::Rules parse(std::string_view text) {
  if (text.starts_with('{'))
    return json_schema_rules(parse_user_json(text, "schema"), "schema").rules;
  if (text.starts_with('/')) return grammar::regex_rules(text.substr(1), "regex");
  return grammar::parse_gbnf(text, "gbnf");
}

// The 256 bytes, some longer texts and the end token.
constexpr int32_t kTokens = 264, kEnd = kTokens - 1;

// The tokens that a reference allows. As in a model's grammar, it may not name the end, and a name
// must be a token's.
grammar::TokenMask tokens_of(const grammar::TokenReference& reference) {
  if (reference.id < 0 || reference.id >= kEnd) {
    fail(Exit::Usage, "the vocabulary has no such token");
  }
  grammar::TokenMask mask((kTokens + 63) / 64);
  for (int32_t id = 0; id < kEnd; ++id) {
    if ((id == reference.id) != reference.others) grammar::add_token(mask, id);
  }
  return mask;
}

std::shared_ptr<const grammar::Vocabulary> make_vocabulary(
    std::span<const grammar::TokenReference> references) {
  std::array<std::string, 256> bytes;
  std::vector<std::string_view> tokens;
  for (size_t i = 0; i < bytes.size(); ++i)
    tokens.push_back(bytes[i].assign(1, static_cast<char>(i)));
  for (const char* more : {"{\"", "\":", "ab", "\xE6\x97", "\xC3\xA9", "12", "}}", ""}) {
    tokens.push_back(more);
  }
  std::vector<grammar::TokenMask> named;
  for (const grammar::TokenReference& reference : references) {
    named.push_back(tokens_of(reference));
  }
  return std::make_shared<const grammar::Vocabulary>(tokens, std::span(&kEnd, 1), std::move(named));
}

std::shared_ptr<const grammar::Vocabulary> vocabulary_of(const grammar::Rules& rules) {
  static const auto usual = make_vocabulary({});
  return rules.tokens().empty() ? usual : make_vocabulary(rules.tokens());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const grammar::Rules rules = parse(text);
    const auto masks = std::make_shared<grammar::Masks>(std::make_shared<grammar::Automaton>(rules),
                                                        vocabulary_of(rules),
                                                        grammar::MaskLimits{100'000, 1'000'000});
    grammar::Matcher matcher(masks);
    uint32_t random = static_cast<uint32_t>(size) + 1;
    for (int step = 0; step < 30 && !matcher.finished(); ++step) {
      const std::span<const uint64_t> mask = matcher.mask();
      random = random * 1664525 + 1013904223;
      int32_t token = static_cast<int32_t>((random >> 8) % kTokens), tried = 0;
      while (tried < kTokens && !grammar::has_token(mask, token)) {
        token = (token + 1) % kTokens;
        ++tried;
      }
      check(tried < kTokens, "a text that goes on or ends");
      check(matcher.accept(token), "a token of the mask can be taken");
    }
  } catch (const Error&) {
  }
  return 0;
}
