#include "app/model/cache_types.h"

#include <cctype>
#include <optional>
#include <vector>

#include "app/files/json.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr const char *kKeys = "--cache-type-k", *kValues = "--cache-type-v";

std::vector<std::string> type_words() {
  std::vector<std::string> words;
  for (const CacheType type : all_cache_types()) words.push_back(flag_word(type));
  return words;
}

}  // namespace

std::string flag_word(CacheType type) {
  std::string word(name(type));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

CacheType parse_cache_type(const std::string& text, const std::string& flag) {
  const std::optional<CacheType> type = cache_type_from_name(text);
  if (type) return *type;
  std::string known;
  for (const std::string& word : type_words()) known += concat(known.empty() ? "" : ", ", word);
  fail(Exit::Usage, flag, " '", printable(text, 60), "': the KV cache has no such type; it has ",
       known);
}

void add_cache_type_flags(Command& command, CacheTypeRequest& types) {
  const auto add = [&](const char* flag, std::optional<CacheType>& type, const std::string& help) {
    const auto parse = [&type, flag](const std::string& text) {
      type = parse_cache_type(text, flag);
    };
    const Option option = command.option(flag, parse, help);
    command.suggest(option.type_name("TYPE").group(kChangesOutput), type_words());
  };
  std::string known;
  for (const std::string& word : type_words()) known += " " + word;
  add(kKeys, types.keys, "Keep keys in the KV cache as" + known + " [16 bits]");
  add(kValues, types.values, "The same for values");
}

void add_cache_types(const CacheTypes& types, Json& report) {
  report["cache_type_k"] = flag_word(types.keys);
  report["cache_type_v"] = flag_word(types.values);
}

void add_cache_types(const CacheTypeRequest& types, Json& settings) {
  if (types.keys) settings["cache_type_k"] = flag_word(*types.keys);
  if (types.values) settings["cache_type_v"] = flag_word(*types.values);
}

}  // namespace skald
