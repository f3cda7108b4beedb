#include "models/text/folder_vocabulary.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/hf_config.h"
#include "tokenizer/chat/turn_ends.h"
#include "tokenizer/files/hf_tokenizer.h"
#include "tokenizer/files/tokenizer_json.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr auto kUserDefinedType = static_cast<int32_t>(TokenKind::UserDefined);
constexpr auto kControlType = static_cast<int32_t>(TokenKind::Control);

void add_listed_token(const AddedToken& token, Vocabulary& v) {
  if (token.lstrip || token.single_word) {
    fail(Exit::Model, v.source, ": the token '", printable(token.text, 40), "' has ",
         token.lstrip ? "lstrip" : "single_word",
         ", which skald does not support for a tokenizer.model; put the model's tokenizer.json "
         "beside it");
  }
  const auto id = static_cast<size_t>(token.id);
  if (id >= v.pieces.size()) {
    v.pieces.resize(id + 1);
    v.types.resize(id + 1, static_cast<int32_t>(TokenKind::Unused));
    v.scores.resize(id + 1, 0);
  }
  int32_t& type = v.types[id];
  const auto is = [&](TokenKind kind) { return type == static_cast<int32_t>(kind); };
  if (token.rstrip) v.strips_right.push_back(token.id);
  // Bytes and the unknown token stay what the library needs; a control token is never a text.
  if (is(TokenKind::Byte) || is(TokenKind::Unknown) || is(TokenKind::Control)) return;
  v.pieces[id] = token.text;
  type = token.special ? kControlType : kUserDefinedType;
}

}  // namespace

void make_turn_ends_control(Vocabulary& v) {
  for (size_t id = 0; id < std::min(v.pieces.size(), v.types.size()); ++id) {
    if (v.types[id] == kUserDefinedType && ends_turn(v.pieces[id])) v.types[id] = kControlType;
  }
}

Vocabulary folder_vocabulary(const fs::path& model) {
  Vocabulary v = read_sentencepiece(model);
  const fs::path folder = model.parent_path();
  if (const fs::path file = folder / "added_tokens.json"; fs::exists(file)) {
    for (const AddedToken& token :
         parse_added_tokens(read_json_file(file), printable(file.string()))) {
      add_listed_token(token, v);
    }
  }
  if (const fs::path file = folder / "tokenizer_config.json"; fs::exists(file)) {
    const HfConfig config = HfConfig::read(file);
    const auto take = [&](std::string_view key, bool& setting) {
      if (config.has(key)) setting = config.boolean_or(key, false);
    };
    take("add_bos_token", v.add_bos);
    take("add_eos_token", v.add_eos);
    take("legacy", v.legacy);
    take("add_prefix_space", v.add_space_prefix);
    for (const AddedToken& token :
         parse_tokens_of_config(read_json_file(file), printable(file.string()))) {
      add_listed_token(token, v);
    }
  }
  make_turn_ends_control(v);
  return v;
}

}  // namespace skald
