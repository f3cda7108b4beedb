#include "tokenizer/files/hf_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/files/hf_parts.h"
#include "tokenizer/files/tokenizer_json.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace skald {
namespace {

// Checks an id from a file before memory is allocated for it.
int32_t checked_id(int64_t id, std::string_view text, const std::string& source) {
  if (id < 0 || id >= static_cast<int64_t>(kMaxPieces)) {
    fail(Exit::Model, source, ": token '", printable(text, 40), "' has the id ", id,
         ", expected 0 to ", kMaxPieces - 1);
  }
  return static_cast<int32_t>(id);
}

void place_vocab(const TokenizerJson& file, BpeVocabulary& v) {
  int64_t largest = -1;
  for (const auto& [piece, id] : file.vocab) {
    largest = std::max<int64_t>(largest, checked_id(id, piece, v.source));
  }
  v.pieces.resize(static_cast<size_t>(largest + 1));
  std::vector<bool> taken(v.pieces.size());
  std::unordered_map<std::string_view, int64_t> seen;
  seen.reserve(file.vocab.size());
  for (const auto& [piece, id] : file.vocab) {
    const auto [same, is_new] = seen.emplace(piece, id);
    if (!is_new) {
      fail(Exit::Model, v.source, ": token '", printable(piece, 40),
           "' occurs twice, with the ids ", same->second, " and ", id);
    }
    if (taken[id]) {
      fail(Exit::Model, v.source, ": tokens '", printable(v.pieces[id], 40), "' and '",
           printable(piece, 40), "' have the same id ", id);
    }
    taken[id] = true;
    v.pieces[id] = piece;
  }
}

// A token without its id.
AddedToken added_token(const JsonPlace& item) {
  AddedToken token;
  token.text = item["content"].text();
  token.special = item.boolean_or("special", false);
  token.normalized = item.boolean_or("normalized", !token.special);
  token.single_word = item.boolean_or("single_word", false);
  token.lstrip = item.boolean_or("lstrip", false);
  token.rstrip = item.boolean_or("rstrip", false);
  return token;
}

void read_added(const JsonPlace& json, BpeVocabulary& v) {
  if (json.is_null()) return;
  for (const JsonPlace& item : json.elements()) {
    item.know_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token = added_token(item);
    token.id = checked_id(item["id"].integer(), token.text, v.source);
    v.added.push_back(std::move(token));
  }
}

void read_model(const JsonPlace& json, BpeVocabulary& v) {
  json.know_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges"});
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json.text_or(affix, "").empty()) unknown_hf_part(json[affix], json[affix].text());
  }
  if (json.has("dropout")) {
    fail(Exit::Model, json["dropout"].where(),
         ": makes tokens random, which skald does not support");
  }
  v.fuse_unk = json.boolean_or("fuse_unk", false);
  v.byte_fallback = json.boolean_or("byte_fallback", false);
  v.ignore_merges = json.boolean_or("ignore_merges", false);
}

int32_t find_token(const BpeVocabulary& v, std::string_view text) {
  if (text.empty()) return -1;
  for (const AddedToken& token : v.added) {
    if (token.text == text) return token.id;
  }
  const auto found = std::find(v.pieces.begin(), v.pieces.end(), text);
  return found == v.pieces.end() ? -1 : static_cast<int32_t>(found - v.pieces.begin());
}

// The special tokens around a text. The flags of tokenizer_config.json have priority over the
// template.
void set_special(const HfTokenizerConfig& config, const HfTemplate& around,
                 const std::string& unk_token, BpeVocabulary& v) {
  const auto need = [&](const std::string& text, std::string_view what) {
    const int32_t id = find_token(v, text);
    if (id < 0 && !text.empty()) {
      fail(Exit::Model, v.source, ": ", what, " '", printable(text, 40),
           "' is not in the vocabulary");
    }
    return id;
  };
  v.add_bos = config.add_bos.value_or(!around.before.empty());
  v.add_eos = config.add_eos.value_or(!around.after.empty());
  v.bos = v.add_bos && !around.before.empty() ? need(around.before, "the template's token")
                                              : find_token(v, config.bos);
  v.eos = v.add_eos && !around.after.empty() ? need(around.after, "the template's token")
                                             : find_token(v, config.eos);
  v.unk = need(unk_token, "unk_token");
  v.pad = find_token(v, config.pad);
  if (config.add_bos.value_or(false)) need(config.bos, "bos_token");
  if (config.add_eos.value_or(false)) need(config.eos, "eos_token");
}

// A token is a string, or an object with flags.
std::string token_text(const JsonPlace& json) {
  if (json.is_null()) return "";
  return json.is_object() ? json["content"].text() : json.text();
}

}  // namespace

HfTokenizerConfig parse_hf_tokenizer_config(std::string_view text, const std::string& source) {
  const TokenizerJson file = parse_tokenizer_json(text, source);
  const JsonPlace json(file.root, source);
  const auto flag = [&](std::string_view key) {
    return json.has(key) ? std::optional(json[key].boolean()) : std::nullopt;
  };
  HfTokenizerConfig out;
  out.add_bos = flag("add_bos_token");
  out.add_eos = flag("add_eos_token");
  out.legacy = flag("legacy");
  out.bos = token_text(json["bos_token"]);
  out.eos = token_text(json["eos_token"]);
  out.unk = token_text(json["unk_token"]);
  out.pad = token_text(json["pad_token"]);
  return out;
}

std::vector<AddedToken> parse_tokens_of_config(std::string_view text, const std::string& source) {
  const TokenizerJson file = parse_tokenizer_json(text, source);
  std::vector<AddedToken> tokens;
  const JsonPlace json = JsonPlace(file.root, source)["added_tokens_decoder"];
  if (json.is_null()) return tokens;
  for (const auto& [key, item] : json.members()) {
    AddedToken token = added_token(item);
    int64_t id = -1;
    const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || rest != key.data() + key.size()) {
      fail(Exit::Model, json.where(), ": '", printable(key, 40), "': expected a token id");
    }
    token.id = checked_id(id, token.text, source);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<AddedToken> parse_added_tokens(std::string_view text, const std::string& source) {
  const TokenizerJson file = parse_tokenizer_json(text, source);
  std::vector<AddedToken> tokens;
  for (const auto& [key, id] : JsonPlace(file.root, source).members()) {
    tokens.push_back({.id = checked_id(id.integer(), key, source), .text = std::string(key)});
  }
  return tokens;
}

std::optional<BpeVocabulary> parse_hf_tokenizer(std::string_view text, const std::string& source,
                                                const HfTokenizerConfig& config) {
  TokenizerJson file = parse_tokenizer_json(text, source);
  const JsonPlace json(file.root, source);
  const JsonPlace model = json["model"];
  // Old files have no type.
  if (model.text_or("type", file.merges.empty() ? "" : "BPE") != "BPE") return std::nullopt;
  // truncation and padding concern batches; every program that loads the file sets them itself.
  json.know_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                  "post_processor", "decoder", "model"});
  BpeVocabulary v;
  v.source = source;
  read_model(model, v);
  place_vocab(file, v);
  v.merges = std::move(file.merges);
  read_added(json["added_tokens"], v);
  read_hf_normalizer(json["normalizer"], v.normalizer);
  v.byte_level = read_hf_pre_tokenizer(json["pre_tokenizer"], v.pre_tokenizer);
  if (read_hf_decoder(json["decoder"], v.decoder) != v.byte_level) {
    fail(Exit::Model, source,
         ": only one of pre_tokenizer and decoder is byte-level; expected both or neither");
  }
  v.legacy = config.legacy.value_or(true);
  set_special(config, read_hf_post_processor(json["post_processor"]),
              model.text_or("unk_token", ""), v);
  return v;
}

std::unique_ptr<Tokenizer> open_hf_tokenizer(const std::filesystem::path& path,
                                             std::vector<int32_t> ends,
                                             std::optional<bool> legacy) {
  const auto config_path = path.parent_path() / "tokenizer_config.json";
  HfTokenizerConfig config;
  std::error_code error;
  if (std::filesystem::exists(config_path, error)) {
    config =
        parse_hf_tokenizer_config(read_json_file(config_path), printable(config_path.string()));
  }
  if (legacy) config.legacy = legacy;
  auto vocabulary = parse_hf_tokenizer(read_json_file(path), printable(path.string()), config);
  if (!vocabulary) return nullptr;
  vocabulary->ends = std::move(ends);
  return make_bpe(std::move(*vocabulary));
}

}  // namespace skald
