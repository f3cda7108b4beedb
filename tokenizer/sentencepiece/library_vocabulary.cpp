#include "tokenizer/sentencepiece/library_vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "engine/base/error.h"
#include "tokenizer/sentencepiece/piece_merger.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr size_t kMaxVocabularyBytes = size_t{256} << 20;
constexpr size_t kMaxNested = 60;  // the library's array of matches has 64 entries

// A piece for a message: shortened, without control characters. Must not be called "quoted": for a
// std::string, std::quoted would be chosen instead.
std::string short_piece(std::string_view piece) {
  std::string out = "'";
  for (const char c : piece.substr(0, 40)) {
    const bool plain = c >= ' ' && c <= '~';
    out += plain ? c : '?';
  }
  return out + (piece.size() > 40 ? "...'" : "'");
}

void check_sizes(const Vocabulary& v) {
  const size_t count = v.pieces.size();
  if (count == 0 || count > kMaxPieces) {
    fail(Exit::Model, v.source, ": ", count, " tokens, expected 1 to ", kMaxPieces);
  }
  if (!v.scores.empty() && v.scores.size() != count) {
    fail(Exit::Model, v.source, ": ", v.scores.size(), " token scores for ", count, " tokens");
  }
  if (!v.types.empty() && v.types.size() != count) {
    fail(Exit::Model, v.source, ": ", v.types.size(), " token types for ", count, " tokens");
  }
  size_t bytes = 0;
  for (size_t id = 0; id < count; ++id) {
    const size_t size = v.pieces[id].size();
    bytes += size;
    if (size > kMaxPieceBytes || bytes > kMaxVocabularyBytes) {
      fail(Exit::Model, v.source, ": token ", id, " has ", size, " bytes (at most ", kMaxPieceBytes,
           " for one, ", kMaxVocabularyBytes, " for all)");
    }
    if (!v.scores.empty() && !std::isfinite(v.scores[id])) {
      fail(Exit::Model, v.source, ": token ", id, " has the score ", v.scores[id]);
    }
  }
  for (const auto& [what, id] : {std::pair("bos", v.bos), std::pair("eos", v.eos),
                                 std::pair("unk", v.unk), std::pair("pad", v.pad)}) {
    if (id < -1 || id >= static_cast<int64_t>(count)) {
      fail(Exit::Model, v.source, ": the ", what, " token is ", id, ", but there are ", count,
           " tokens");
    }
  }
  for (const int32_t id : v.strips_right) {
    check(id >= 0 && id < static_cast<int64_t>(count), "strips_right names tokens");
  }
  if (const std::string fault = charsmap_fault(v.charsmap); !fault.empty()) {
    fail(Exit::Model, v.source, ": damaged normalization rules: ", fault);
  }
}

TokenKind guessed_kind(const Vocabulary& v, int32_t id) {
  if (id == v.unk) return TokenKind::Unknown;
  if (id == v.bos || id == v.eos || id == v.pad) return TokenKind::Control;
  return byte_of_piece(v.pieces[id]) >= 0 ? TokenKind::Byte : TokenKind::Normal;
}

void complete_types(Vocabulary& v) {
  const int32_t count = static_cast<int32_t>(v.pieces.size());
  const bool guess = v.types.empty();
  v.types.resize(count);
  for (int32_t id = 0; id < count; ++id) {
    if (guess) v.types[id] = static_cast<int32_t>(guessed_kind(v, id));
    if (v.types[id] == 0) v.types[id] = static_cast<int32_t>(TokenKind::Normal);
    if (v.types[id] < 1 || v.types[id] > 6) {
      fail(Exit::Model, v.source, ": token ", id, " ", short_piece(v.pieces[id]), " has the type ",
           v.types[id], ", expected 1 to 6");
    }
    const TokenKind kind = static_cast<TokenKind>(v.types[id]);
    if (kind == TokenKind::Byte && byte_of_piece(v.pieces[id]) < 0) {
      fail(Exit::Model, v.source, ": token ", id, " ", short_piece(v.pieces[id]),
           " is marked as a byte, expected <0x00> to <0xFF>");
    }
  }
  // A piece's type has priority over the id that a file names as unknown: treating a normal piece
  // as unknown would lose the piece.
  const int32_t unknown = static_cast<int32_t>(TokenKind::Unknown);
  if (v.unk < 0 || v.types[v.unk] != unknown) {
    const auto found = std::find(v.types.begin(), v.types.end(), unknown);
    v.unk = found == v.types.end() ? -1 : static_cast<int32_t>(found - v.types.begin());
  }
}

// The library searches user-defined pieces by common prefix, and supports at most 64 nested
// prefixes.
void check_nesting(const Vocabulary& v, std::vector<std::string> user_defined) {
  std::sort(user_defined.begin(), user_defined.end());
  std::vector<std::string_view> open;
  for (const std::string& piece : user_defined) {
    while (!open.empty() && !piece.starts_with(open.back())) open.pop_back();
    open.push_back(piece);
    if (open.size() > kMaxNested) {
      fail(Exit::Model, v.source, ": more than ", kMaxNested,
           " user-defined tokens begin with each other, such as ", short_piece(piece));
    }
  }
}

// True if all 256 bytes have a piece.
bool has_all_bytes(const Vocabulary& v) {
  std::array<bool, 256> seen{};
  for (size_t id = 0; id < v.pieces.size(); ++id) {
    if (v.types[id] == static_cast<int32_t>(TokenKind::Byte)) {
      seen[byte_of_piece(v.pieces[id])] = true;
    }
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

}  // namespace

LibraryModel library_vocabulary(Vocabulary& v) {
  check_sizes(v);
  complete_types(v);
  if (v.scores.empty()) {
    for (size_t id = 0; id < v.pieces.size(); ++id) v.scores.push_back(-static_cast<float>(id));
  }
  const bool byte_fallback = has_all_bytes(v);
  if (v.unk < 0 && !byte_fallback) {
    fail(Exit::Model, v.source,
         ": has neither an unknown token nor a token for each byte: text outside its vocabulary "
         "cannot be tokenized");
  }

  LibraryModel out = {
      {}, v.unigram, byte_fallback, v.add_space_prefix, v.remove_extra_whitespaces, v.charsmap};
  std::unordered_set<std::string> names;
  std::vector<std::string> user_defined;
  for (size_t id = 0; id < v.pieces.size(); ++id) {
    const TokenKind kind = static_cast<TokenKind>(v.types[id]);
    // GGUFs of Gemma write user-defined pieces with real spaces, and the library looks for pieces
    // in a text whose spaces it has replaced.
    const bool escapes = kind == TokenKind::UserDefined && utf8_valid(v.pieces[id]);
    const std::string piece = escapes ? as_library_sees(v.pieces[id]) : v.pieces[id];
    // A placeholder that no text can become: a control piece whose name is not valid UTF-8.
    LibraryModel::Piece made = {concat("\xFF", id), v.scores[id], TokenKind::Control};
    if (static_cast<int32_t>(id) == v.unk) {
      made.kind = TokenKind::Unknown;
    } else if (kind == TokenKind::Byte) {
      if (byte_fallback && names.insert(piece).second) made = {piece, v.scores[id], kind};
    } else if (kind != TokenKind::Control && kind != TokenKind::Unknown) {
      // The library's tries end a piece at a zero byte. It also treats <0x41> as a byte whatever
      // the piece's type is.
      const bool in_trie = v.unigram || kind == TokenKind::UserDefined;
      const bool matchable = !piece.empty() && utf8_valid(piece) &&
                             !(in_trie && piece.find('\0') != piece.npos) &&
                             !(byte_fallback && byte_of_piece(piece) >= 0);
      if (matchable && names.insert(piece).second) {
        made = {piece, v.scores[id], kind};
        if (kind == TokenKind::UserDefined) user_defined.push_back(piece);
      }
    }
    out.pieces.push_back(std::move(made));
  }
  check_nesting(v, user_defined);
  // The library requires an unknown piece. With a piece for each byte it is never produced.
  if (v.unk < 0) out.pieces.push_back({"\xFFunk", 0, TokenKind::Unknown});
  return out;
}

}  // namespace skald
