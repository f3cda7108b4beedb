#include "tokenizer/sentencepiece/piece_merger.h"

#include <algorithm>

#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {

std::unique_ptr<PieceMerger> PieceMerger::make(LibraryModel model) {
  const bool has_unused =
      std::any_of(model.pieces.begin(), model.pieces.end(),
                  [](const LibraryModel::Piece& p) { return p.kind == TokenKind::Unused; });
  if (model.unigram || !model.byte_fallback || has_unused || !model.charsmap.empty() ||
      model.remove_extra_whitespaces) {
    return nullptr;
  }
  return std::unique_ptr<PieceMerger>(new PieceMerger(std::move(model)));
}

PieceMerger::PieceMerger(LibraryModel model) : model_(std::move(model)), byte_ids_(256, -1) {
  add_symbols();
  add_merges();
}

void PieceMerger::add_symbols() {
  const int32_t count = static_cast<int32_t>(model_.pieces.size());
  for (int32_t id = 0; id < count; ++id) {
    const LibraryModel::Piece& piece = model_.pieces[id];
    if (piece.kind == TokenKind::Normal) symbols_.emplace(piece.name, id);
    if (piece.kind == TokenKind::UserDefined) user_defined_.add(piece.name, id);
    if (piece.kind == TokenKind::Byte) byte_ids_[byte_of_piece(piece.name)] = id;
  }
  user_defined_.finish();
  for (const LibraryModel::Piece& piece : model_.pieces) {
    if (piece.kind != TokenKind::Normal) continue;
    for (std::string_view rest = piece.name; !rest.empty();) {
      const std::string_view character = rest.substr(0, utf8_length(rest));
      rest.remove_prefix(character.size());
      const int32_t next = count + static_cast<int32_t>(characters_.size());
      if (symbols_.emplace(character, next).second) characters_.push_back(character);
    }
  }
}

// Two symbols may be merged if together they are a piece.
void PieceMerger::add_merges() {
  std::vector<float> scores;
  for (const LibraryModel::Piece& piece : model_.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    const LibraryModel::Piece& piece = model_.pieces[id];
    if (piece.kind != TokenKind::Normal) continue;
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    const uint32_t rank = static_cast<uint32_t>(place - scores.begin());
    const std::string_view name = piece.name;
    for (size_t cut = utf8_length(name); cut < name.size(); cut += utf8_length(name.substr(cut))) {
      const auto left = symbols_.find(name.substr(0, cut)), right = symbols_.find(name.substr(cut));
      if (left == symbols_.end() || right == symbols_.end()) continue;
      merges_.add(left->second, right->second, {rank, static_cast<int32_t>(id)});
    }
  }
}

bool PieceMerger::append(std::string_view text, std::vector<int32_t>& ids) const {
  if (user_defined_.find(text).id >= 0) return false;
  const int32_t count = static_cast<int32_t>(model_.pieces.size());
  const auto put_bytes = [&](std::string_view character, std::vector<int32_t>& out) {
    for (const char c : character) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  };
  std::vector<int32_t> symbols;
  symbols.reserve(text.size());
  while (!text.empty()) {
    const std::string_view character = text.substr(0, utf8_length(text));
    check(!character.empty(), "a text to be merged is UTF-8");
    text.remove_prefix(character.size());
    const auto found = symbols_.find(character);
    if (found != symbols_.end()) {
      symbols.push_back(found->second);
    } else {
      put_bytes(character, symbols);  // bytes never merge
    }
  }
  Merger(merges_).merge(symbols);
  for (const int32_t symbol : symbols) {
    if (symbol < count) {
      ids.push_back(symbol);
    } else {
      put_bytes(characters_[static_cast<size_t>(symbol - count)], ids);
    }
  }
  return true;
}

std::string as_library_sees(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (text[0] == ' ') {
      out += "\xE2\x96\x81";
    } else {
      out += length > 0 ? text.substr(0, length) : kReplacementCharacter;
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace skald
