#include "models/text/chat_templates.h"

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf.h"
#include "models/text/open_tokenizer.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::vector<NamedTemplate> gguf_templates(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<NamedTemplate> all;
  for (const GgufValue& value : metadata.values()) {
    if (value.type != GgufType::String || !value.key.starts_with(kKey)) continue;
    const std::string_view rest = value.key.substr(kKey.size());
    if (!rest.empty() && !rest.starts_with('.')) continue;
    const std::string name = rest.empty() ? "default" : std::string(rest.substr(1));
    NamedTemplate one{name, concat("GGUF ", printable(value.key, 80)),
                      std::string(metadata.text(value.key))};
    all.insert(rest.empty() ? all.begin() : all.end(), std::move(one));
  }
  return all;
}

SpecialTexts gguf_special_texts(const GgufMetadata& metadata) {
  SpecialTexts special;
  if (!metadata.find("tokenizer.ggml.tokens")) return special;
  const std::vector<std::string_view> pieces = metadata.strings("tokenizer.ggml.tokens");
  const auto set = [&](std::optional<std::string>& text, const char* key) {
    const uint64_t id = metadata.uint_or(key, UINT64_MAX);
    if (id < pieces.size()) text = std::string(pieces[id]);
  };
  set(special.bos, "tokenizer.ggml.bos_token_id");
  set(special.eos, "tokenizer.ggml.eos_token_id");
  set(special.unk, "tokenizer.ggml.unknown_token_id");
  set(special.pad, "tokenizer.ggml.padding_token_id");
  return special;
}

// The folder of a model or of one of its files.
fs::path folder_of(const fs::path& model) {
  if (fs::is_directory(model)) return model;
  return model.has_parent_path() ? model.parent_path() : fs::path(".");
}

bool has_gguf(const fs::path& model) { return fs::is_regular_file(model) && is_gguf(model); }

}  // namespace

SpecialTexts special_texts(const fs::path& model) {
  if (has_gguf(model)) return gguf_special_texts(open_gguf(model)->metadata());
  SpecialTexts special = read_special_texts(folder_of(model));
  if (special.bos && special.eos) return special;
  try {  // a tokenizer.model also knows them
    const auto tokenizer = open_tokenizer(model);
    const SpecialTokens& ids = tokenizer->special();
    const auto set = [&](std::optional<std::string>& text, int32_t id) {
      if (!text && id >= 0) text = std::string(tokenizer->piece(id));
    };
    set(special.bos, ids.bos);
    set(special.eos, ids.eos);
  } catch (const Error&) {  // without a tokenizer, the template runs without them
  }
  return special;
}

std::string_view template_kind(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"<|im_start|>", "chatml"},
      {"<|start_header_id|>", "llama3"},
      {"<<SYS>>", "llama2"},
      {"[INST]", "mistral"},
      {"<start_of_turn>", "gemma"},
      {"<|turn>", "gemma4"},
      {"<|START_OF_TURN_TOKEN|>", "command-r"},
      {"<|start_of_role|>", "granite"},
      {"<\uff5cUser\uff5c>", "deepseek3"},
      {"GPT4 Correct", "openchat"},
      {"### Instruction", "alpaca"},
      {"<|end|>", "phi3"},
      {"<|user|>", "zephyr"},
      {"USER:", "vicuna"},
  };
  for (const auto& [mark, kind] : kMarks) {
    if (text.find(mark) != std::string_view::npos) return kind;
  }
  return "its own";
}

std::vector<NamedTemplate> find_chat_templates(const fs::path& model) {
  if (!fs::exists(model)) {
    fail(Exit::Model, printable(model.string()), ": there is no such file or folder");
  }
  if (has_gguf(model)) return gguf_templates(open_gguf(model)->metadata());
  return read_chat_templates(folder_of(model));
}

}  // namespace skald
