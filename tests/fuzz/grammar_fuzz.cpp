// The input is a grammar: a JSON schema, a regular expression or GBNF, as its first byte says.
// Tokens that the masks allow are accepted one after the other. A mask must allow at least one
// token, and the matcher must accept it.
#include <array>
#include <string>
#include <string_view>

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

std::shared_ptr<const grammar::Vocabulary> vocabulary() {
  static const auto made = [] {
    std::array<std::string, 256> bytes;
    std::vector<std::string_view> tokens;
    for (size_t i = 0; i < bytes.size(); ++i)
      tokens.push_back(bytes[i].assign(1, static_cast<char>(i)));
    for (const char* more : {"{\"", "\":", "ab", "\xE6\x97", "\xC3\xA9", "12", "}}", ""}) {
      tokens.push_back(more);
    }
    const int32_t end = static_cast<int32_t>(tokens.size()) - 1;
    return std::make_shared<const grammar::Vocabulary>(tokens, std::span(&end, 1));
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto masks =
        std::make_shared<grammar::Masks>(std::make_shared<grammar::Automaton>(parse(text)),
                                         vocabulary(), grammar::MaskLimits{100'000, 1'000'000});
    grammar::Matcher matcher(masks);
    uint32_t random = static_cast<uint32_t>(size) + 1;
    for (int step = 0; step < 30 && !matcher.finished(); ++step) {
      const std::span<const uint64_t> mask = matcher.mask();
      random = random * 1664525 + 1013904223;
      const auto count = static_cast<uint32_t>(vocabulary()->size());
      uint32_t token = (random >> 8) % count, tried = 0;
      while (tried < count && !(mask[token / 64] >> (token % 64) & 1)) {
        token = (token + 1) % count;
        ++tried;
      }
      check(tried < count, "a text that goes on or ends");
      check(matcher.accept(static_cast<int32_t>(token)), "a token of the mask can be taken");
    }
  } catch (const Error&) {
  }
  return 0;
}
