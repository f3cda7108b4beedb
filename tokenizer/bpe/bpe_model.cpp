#include "tokenizer/bpe/bpe_model.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr size_t kMostCachedBytes = 64;        // longer words seldom repeat
constexpr size_t kMostCachedWords = 64 << 10;  // limit on cached words, which bounds the memory
constexpr size_t kMostBytes = INT32_MAX;       // limit on a word, because the Merger uses int32_t

}  // namespace

BpeModel::BpeModel(const BpeVocabulary& v, const std::unordered_map<std::string_view, int32_t>& ids,
                   const std::vector<bool>& control)
    : byte_level_(v.byte_level),
      byte_fallback_(v.byte_fallback && !v.byte_level),
      fuse_unk_(v.fuse_unk),
      unk_(v.unk),
      byte_ids_(256, -1) {
  for (const auto& [piece, id] : ids) {
    if (v.ignore_merges && !control[id]) {
      std::string text;
      if (!byte_level_) {
        whole_.emplace(piece, id);
      } else if (append_bytes_of(piece, text)) {
        whole_.emplace(std::move(text), id);
      }
    }
    if (!piece.empty() && utf8_length(piece) == piece.size()) {
      const char32_t character = utf8_code_point(piece);
      const int byte = byte_level_ ? byte_of_character(character) : -1;
      if (byte >= 0) byte_ids_[byte] = id;
      if (!byte_level_) character_ids_.emplace(character, id);
    }
    if (const int byte = byte_of_piece(piece); byte_fallback_ && byte >= 0) byte_ids_[byte] = id;
  }
  add_merges(v, ids, control);
}

void BpeModel::add_merges(const BpeVocabulary& v,
                          const std::unordered_map<std::string_view, int32_t>& ids,
                          const std::vector<bool>& control) {
  const auto id_of = [&](std::string_view piece, size_t rank) {
    const auto found = ids.find(piece);
    if (found == ids.end()) {
      fail(Exit::Model, v.source, ": merge ", rank, ", '", printable(v.merges[rank].left, 40),
           "' and '", printable(v.merges[rank].right, 40), "': '", printable(piece, 60),
           "' is not in the vocabulary");
    }
    return found->second;
  };
  merges_.reserve(v.merges.size());
  const bool all_bytes = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  // With byte fallback alone: without it, unknown characters may vanish or merge into one token
  has_seams_ = byte_fallback_ && all_bytes;
  if (has_seams_) joined_ = std::make_unique<std::bitset<kSeams>>();
  std::string whole;
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    const auto& [left, right] = v.merges[rank];
    whole.assign(left).append(right);
    const int32_t l = id_of(left, rank), r = id_of(right, rank), id = id_of(whole, rank);
    if (control[id]) continue;
    if (!v.last_merge_wins && merges_.find(l, r).rank != Merges::kNone) continue;
    merges_.add(l, r, {static_cast<uint32_t>(rank), id});
    if (!has_seams_) continue;
    size_t last = left.size();
    while (last > 0 && (static_cast<uint8_t>(left[--last]) & 0xC0) == 0x80) {
    }
    const std::string_view before = std::string_view(left).substr(last);
    const std::string_view after = std::string_view(right).substr(0, utf8_length(right));
    // Pieces that contain bytes or unknown characters: the text that they come from is not known
    // here.
    const bool strange = byte_of_piece(left) >= 0 || byte_of_piece(right) >= 0 || l == unk_ ||
                         r == unk_ || utf8_length(before) != before.size() || after.empty();
    if (strange) {
      has_seams_ = false;
    } else {
      joined_->set(seam(utf8_code_point(before), utf8_code_point(after)));
    }
  }
}

// The length of `part` up to the first place that no merge can cross.
size_t BpeModel::first_word(std::string_view part) const {
  size_t at = utf8_length(part);
  char32_t before = utf8_code_point(part.substr(0, at));
  while (at < part.size()) {
    const size_t length = utf8_length(part.substr(at));
    const char32_t next = utf8_code_point(part.substr(at, length));
    if (!joined_->test(seam(before, next))) break;
    before = next;
    at += length;
  }
  return at;
}

void BpeModel::Encoder::append(std::string_view part, std::vector<int32_t>& ids) {
  if (!model_.whole_.empty()) {
    const auto whole = model_.whole_.find(part);
    if (whole != model_.whole_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  while (!part.empty()) {
    const size_t length = model_.has_seams_ ? model_.first_word(part) : part.size();
    append_word(part.substr(0, length), ids);
    part.remove_prefix(length);
  }
}

void BpeModel::Encoder::append_word(std::string_view word, std::vector<int32_t>& ids) {
  const bool keep = word.size() <= kMostCachedBytes;
  if (keep) {
    const auto known = cached_words_.find(word);
    if (known != cached_words_.end()) {
      const auto from = cached_ids_.begin() + static_cast<std::ptrdiff_t>(known->second.begin);
      ids.insert(ids.end(), from, from + static_cast<std::ptrdiff_t>(known->second.count));
      return;
    }
  }
  tokens_.clear();
  model_.symbols(word, tokens_);
  merger_.merge(tokens_);
  if (keep && cached_words_.size() < kMostCachedWords) {
    cached_words_.emplace(word, CachedWord{cached_ids_.size(), tokens_.size()});
    cached_ids_.insert(cached_ids_.end(), tokens_.begin(), tokens_.end());
  }
  ids.insert(ids.end(), tokens_.begin(), tokens_.end());
}

void BpeModel::symbols(std::string_view word, std::vector<int32_t>& tokens) const {
  check(word.size() <= kMostBytes, "a text is not too long to be merged");
  if (byte_level_) {
    byte_symbols(word, tokens);
  } else {
    character_symbols(word, tokens);
  }
}

// If the vocabulary lacks a byte and has no unknown token, the byte is dropped, as in Hugging
// Face's tokenizers. The same holds for characters below.
void BpeModel::byte_symbols(std::string_view word, std::vector<int32_t>& tokens) const {
  bool unknown = false;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      tokens.push_back(id);
    } else if (unk_ >= 0 && !(fuse_unk_ && unknown)) {
      tokens.push_back(unk_);
    }
    unknown = id < 0;
  }
}

void BpeModel::character_symbols(std::string_view word, std::vector<int32_t>& tokens) const {
  bool pending = false;  // an unknown character that the next one may join
  while (!word.empty()) {
    const std::string_view character = word.substr(0, utf8_length(word));
    word.remove_prefix(character.size());
    const auto found = character_ids_.find(utf8_code_point(character));
    if (found != character_ids_.end()) {
      if (pending) tokens.push_back(unk_);
      pending = false;
      tokens.push_back(found->second);
      continue;
    }
    const auto has_byte = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; };
    if (byte_fallback_ && std::all_of(character.begin(), character.end(), has_byte)) {
      // These come before a pending unknown token, as in Hugging Face's tokenizers.
      for (const char c : character) tokens.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    } else if (unk_ >= 0) {
      if (pending && !fuse_unk_) tokens.push_back(unk_);
      pending = true;
    }
  }
  if (pending) tokens.push_back(unk_);
}

}  // namespace skald
