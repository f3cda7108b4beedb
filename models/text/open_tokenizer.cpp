#include "models/text/open_tokenizer.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"
#include "models/text/folder_vocabulary.h"
#include "models/text/gguf_bpe.h"
#include "tokenizer/chat/channels.h"
#include "tokenizer/chat/turn_ends.h"
#include "tokenizer/files/gguf_tokens.h"
#include "tokenizer/files/hf_tokenizer.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

// A GGUF cannot say which tokens absorb the white space after them. In Phi-3's tokenizer.json these
// are all special tokens but these three.
void add_stripping_tokens(const GgufMetadata& metadata, Vocabulary& v) {
  if (metadata.text_or("general.architecture", "") != "phi3") return;
  for (size_t id = 0; id < std::min(v.pieces.size(), v.types.size()); ++id) {
    const std::string& piece = v.pieces[id];
    const bool special = v.types[id] == static_cast<int32_t>(TokenKind::Control) ||
                         v.types[id] == static_cast<int32_t>(TokenKind::UserDefined);
    const bool keeps = piece == "<s>" || piece == "<unk>" || piece == "<|endoftext|>";
    if (piece == "</s>" || (special && !keeps)) {
      v.strips_right.push_back(static_cast<int32_t>(id));
    }
  }
}

Vocabulary gguf_vocabulary(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  Vocabulary v;
  v.source = file.path();
  for (std::string_view piece : metadata.strings("tokenizer.ggml.tokens"))
    v.pieces.emplace_back(piece);
  if (metadata.find("tokenizer.ggml.scores")) v.scores = metadata.floats("tokenizer.ggml.scores");
  if (metadata.find("tokenizer.ggml.token_type")) {
    for (int64_t type : metadata.ints("tokenizer.ggml.token_type")) {
      v.types.push_back(static_cast<int32_t>(std::clamp<int64_t>(type, INT32_MIN, INT32_MAX)));
    }
  }
  v.bos = metadata.token_id("tokenizer.ggml.bos_token_id");
  v.eos = metadata.token_id("tokenizer.ggml.eos_token_id");
  v.unk = metadata.token_id("tokenizer.ggml.unknown_token_id");
  v.pad = metadata.token_id("tokenizer.ggml.padding_token_id");
  // The format's defaults.
  if (!metadata.find("tokenizer.ggml.bos_token_id")) v.bos = 1;
  if (!metadata.find("tokenizer.ggml.eos_token_id")) v.eos = 2;
  if (!metadata.find("tokenizer.ggml.unknown_token_id")) v.unk = 0;
  v.add_bos = metadata.boolean_or("tokenizer.ggml.add_bos_token", true);
  v.add_eos = metadata.boolean_or("tokenizer.ggml.add_eos_token", false);
  v.add_space_prefix = metadata.boolean_or("tokenizer.ggml.add_space_prefix", true);
  v.remove_extra_whitespaces =
      metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false);
  add_stripping_tokens(metadata, v);
  make_turn_ends_control(v);
  v.legacy = metadata.boolean_or("tokenizer.skald.legacy", v.legacy);  // written by skald quantize
  return v;
}

void add_stop_id(std::vector<int32_t>& ids, int64_t id) {
  const bool known = std::find(ids.begin(), ids.end(), id) != ids.end();
  if (id >= 0 && id <= INT32_MAX && !known) ids.push_back(static_cast<int32_t>(id));
}

void add_hf_stop_ids(const fs::path& folder, std::vector<int32_t>& ids) {
  for (const char* name : {"config.json", "generation_config.json"}) {
    if (!fs::exists(folder / name)) continue;
    const HfConfig config = HfConfig::read(folder / name);
    if (!config.has("eos_token_id")) continue;
    for (int64_t id : config.integers("eos_token_id")) add_stop_id(ids, id);
  }
}

// The tokens that end the text of a chat model, whatever its files say.
void add_turn_ends(const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  for (const std::string_view piece : kTurnEnds) {
    const int32_t id = tokenizer.find(piece);
    if (tokenizer.is_control(id)) add_stop_id(ids, id);
  }
  if (!has_channels(tokenizer)) return;
  std::erase(ids, channel_token(tokenizer, kMessageEnd));  // ends a message, not the text
  for (const std::string_view piece : {kAnswerEnd, kCallEnd}) {
    add_stop_id(ids, channel_token(tokenizer, piece));
  }
}

std::unique_ptr<Tokenizer> gguf_tokenizer(const GgufFile& file) {
  const std::string_view kind = file.metadata().text_or("tokenizer.ggml.model", "");
  if (kind == "llama") return make_sentencepiece(gguf_vocabulary(file));
  if (kind == "gpt2" || kind == kMergesOfCharacters) return make_bpe(gguf_bpe(file));
  if (kind.empty()) fail(Exit::Model, file.path(), ": contains no tokenizer");
  fail(Exit::Model, file.path(), ": tokenizer kind '", printable(kind),
       "' is not supported; skald reads SentencePiece ('llama'), byte-level BPE ('gpt2') and BPE "
       "over characters ('gemma4')");
}

// tokenizer.json has priority over tokenizer.model, because it contains the tokens added for chat.
std::unique_ptr<Tokenizer> folder_tokenizer(const fs::path& folder) {
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  const bool has_model = fs::exists(model);
  if (fs::exists(json)) {
    std::vector<int32_t> ends;
    add_hf_stop_ids(folder, ends);
    if (auto tokenizer = open_hf_tokenizer(json, ends, fixed_legacy(folder))) return tokenizer;
    if (!has_model) {
      fail(Exit::Model, printable(json.string()),
           ": is not a BPE tokenizer; expected one, or a tokenizer.model beside it");
    }
  }
  if (!has_model) {
    fail(Exit::Model, printable(folder.string()),
         ": has no tokenizer; expected tokenizer.json or tokenizer.model");
  }
  return make_sentencepiece(folder_vocabulary(model));
}

}  // namespace

std::optional<bool> fixed_legacy(const fs::path& folder) {
  // Transformers takes the tokenizer.json of these as it is, in which each text after a special
  // token gets a space, as in llama.cpp. Their tokenizer_config.json may say otherwise.
  constexpr std::string_view kAsTheyAre[] = {"phi3", "ernie4_5", "ernie4_5_moe"};
  if (!fs::exists(folder / "config.json")) return std::nullopt;
  const std::string type = HfConfig::read(folder / "config.json").text_or("model_type", "");
  const bool as_it_is =
      std::find(std::begin(kAsTheyAre), std::end(kAsTheyAre), type) != std::end(kAsTheyAre);
  return as_it_is ? std::optional(true) : std::nullopt;
}

ModelTokenizer open_tokenizer(const OpenedModel& opened) {
  ModelTokenizer result;
  if (opened.gguf) {
    result.tokenizer = gguf_tokenizer(*opened.gguf);
    for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      add_stop_id(result.stop_ids, opened.gguf->metadata().token_id(key));
    }
  } else {
    result.tokenizer = folder_tokenizer(opened.path);
    add_hf_stop_ids(opened.path, result.stop_ids);
  }
  add_stop_id(result.stop_ids, result.tokenizer->special().eos);
  add_turn_ends(*result.tokenizer, result.stop_ids);
  return result;
}

ModelTokenizer open_tokenizer_if_any(const OpenedModel& opened) {
  constexpr std::string_view kNone = "no_vocab";  // GGUF's name for "no tokenizer"
  const bool any = opened.gguf
                       ? opened.gguf->metadata().text_or("tokenizer.ggml.model", kNone) != kNone
                       : fs::exists(opened.path / "tokenizer.json") ||
                             fs::exists(opened.path / "tokenizer.model");
  if (any) return open_tokenizer(opened);
  ModelTokenizer none;
  if (opened.gguf) {
    add_stop_id(none.stop_ids, opened.gguf->metadata().token_id("tokenizer.ggml.eos_token_id"));
  } else {
    add_hf_stop_ids(opened.path, none.stop_ids);
  }
  return none;
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  std::error_code error;
  const std::string name = printable(path.string());
  if (!fs::exists(path, error)) fail(Exit::Model, name, ": there is no such file or folder");
  if (fs::is_directory(path)) {
    for (const char* file : {"tokenizer.model", "tokenizer.json", "config.json"}) {
      if (fs::exists(path / file)) return folder_tokenizer(path);
    }
    return open_tokenizer(open_model(path)).tokenizer;
  }
  if (!fs::is_regular_file(path, error)) {
    fail(Exit::Model, name, ": is neither a file nor a folder");
  }
  if (is_gguf(path)) return gguf_tokenizer(*open_gguf(path));
  if (path.filename() == "config.json" || path.extension() == ".safetensors") {
    return folder_tokenizer(path.has_parent_path() ? path.parent_path() : fs::path("."));
  }
  if (path.extension() != ".json") return open_sentencepiece(path);
  auto tokenizer = open_hf_tokenizer(path);
  if (!tokenizer)
    fail(Exit::Model, name, ": is not a BPE tokenizer, the only kind that skald supports as JSON");
  return tokenizer;
}

}  // namespace skald
