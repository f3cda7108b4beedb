// Reads chat templates and the texts of special tokens from the files of a Hugging Face folder.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {
namespace {

namespace fs = std::filesystem;
using jinja::Dict;
using jinja::Value;

// The largest files in use are lists of a few thousand added tokens.
constexpr uintmax_t kMostBytes = 64 << 20;

std::optional<std::string> read_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  const std::string name = printable(file.string());
  if (!fs::is_regular_file(file, error)) fail(Exit::Model, name, ": is not a file");
  const uintmax_t size = fs::file_size(file, error);
  if (error) fail(Exit::Model, name, ": cannot be read: ", error.message());
  if (size > kMostBytes)
    fail(Exit::Model, name, ": is ", size, " bytes long; expected at most ", kMostBytes, " bytes");
  std::string text(size, '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) fail(Exit::Model, name, ": cannot be read: ", std::strerror(errno));
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
    fail(Exit::Model, name, ": cannot be read");
  }
  return text;
}

// Reads an object from a file of the folder; empty if the file does not exist.
Dict read_object(const fs::path& file) {
  const auto text = read_if_there(file);
  if (!text) return {};
  const std::string name = printable(file.string());
  const Value value = jinja::from_json(*text, name, {Exit::Model, true});
  if (!value.as_dict()) fail(Exit::Model, name, ": is not a JSON object");
  return *value.as_dict();
}

// Reads "chat_template": a string, or a list of {"name": …, "template": …}.
std::vector<NamedTemplate> templates_in(const Dict& object, const std::string& source) {
  const Value* given = object.find("chat_template");
  if (!given || given->is_none()) return {};
  if (given->as_text()) return {{"default", source, given->as_text()->bytes}};
  std::vector<NamedTemplate> all;
  const auto refuse = [&] {
    fail(Exit::Model, source,
         ": \"chat_template\" is neither a string nor a list of named templates");
  };
  if (!given->as_sequence()) refuse();
  for (const Value& one : given->as_sequence()->items) {
    const Dict* entry = one.as_dict();
    const Value* name = entry ? entry->find("name") : nullptr;
    const Value* text = entry ? entry->find("template") : nullptr;
    if (!name || !text || !name->as_text() || !text->as_text()) refuse();
    all.push_back({name->as_text()->bytes,
                   concat(source, ": ", printable(name->as_text()->bytes, 40)),
                   text->as_text()->bytes});
  }
  return all;
}

}  // namespace

std::vector<NamedTemplate> read_chat_templates(const fs::path& folder) {
  if (auto text = read_if_there(folder / "chat_template.jinja")) {
    return {{"default", "chat_template.jinja", *std::move(text)}};
  }
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    auto found = templates_in(read_object(folder / file), file);
    if (!found.empty()) return found;
  }
  return {};
}

SpecialTexts read_special_texts(const fs::path& folder) {
  SpecialTexts special;
  // special_tokens_map.json is older and has what tokenizer_config.json may omit.
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const Dict object = read_object(folder / file);
    const auto set = [&](std::optional<std::string>& text, std::string_view key) {
      const Value* given = object.find(key);
      // A string, or an object that describes the token.
      if (given && given->as_dict()) given = given->as_dict()->find("content");
      if (!text && given && given->as_text()) text = given->as_text()->bytes;
    };
    set(special.bos, "bos_token");
    set(special.eos, "eos_token");
    set(special.unk, "unk_token");
    set(special.pad, "pad_token");
  }
  return special;
}

}  // namespace skald
