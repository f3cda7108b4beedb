#include "tokenizer/bpe/pre_tokenizer.h"

#include <algorithm>

#include "engine/base/error.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

struct Piece {
  Span span;
  bool match;
};

// Splits a part into matches and the text between them, in order, without empty pieces.
void pieces_of(const PreTokenizer::Split& rule, Span part, const std::vector<Span>& matches,
               std::vector<Piece>& pieces) {
  pieces.clear();
  const auto put = [&](uint32_t begin, uint32_t end, bool match) {
    if (begin < end) pieces.push_back({{begin, end}, match != rule.invert});
  };
  uint32_t from = part.begin;
  for (const Span& match : matches) {
    put(from, part.begin + match.begin, false);
    put(part.begin + match.begin, part.begin + match.end, true);
    from = part.begin + match.end;
  }
  put(from, part.end, false);
}

// Appends the parts that `behavior` makes of the pieces of one part.
void join(SplitBehavior behavior, const std::vector<Piece>& pieces, std::vector<Span>& parts) {
  const size_t first = parts.size();
  bool before = false;  // whether the previous piece was a match
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [span, match] = pieces[i];
    bool extend = false;
    switch (behavior) {
      case SplitBehavior::Removed:
        break;
      case SplitBehavior::Isolated:
        break;
      case SplitBehavior::Contiguous:
        extend = match == before;
        break;
      case SplitBehavior::MergedWithPrevious:
        extend = match && !before;
        break;
      // If matches are neighbours, only the last one is merged with the next piece.
      case SplitBehavior::MergedWithNext:
        extend = before && !match;
        break;
    }
    before = match;
    if (behavior == SplitBehavior::Removed && match) continue;
    if (extend && parts.size() > first) {
      parts.back().end = span.end;
    } else {
      parts.push_back(span);
    }
  }
}

struct Cut {
  PreTokenizer::Parts& parts;
  PreTokenizer::Place place;
  bool in_alphabet = false;

  void operator()(const PreTokenizer::Split& rule) {
    std::vector<Span> out, matches;
    std::vector<Piece> pieces;
    Regex::Search search(rule.pattern);
    out.reserve(parts.spans.size());
    for (const Span& part : parts.spans) {
      search.find_all(parts.text.substr(part.begin, part.end - part.begin), matches);
      pieces_of(rule, part, matches, pieces);
      join(rule.behavior, pieces, out);
    }
    parts.spans = std::move(out);
  }

  void operator()(const PreTokenizer::PrefixSpace&) {
    rewrite([&](std::string_view part, std::string& out, bool first) {
      if (!part.starts_with(' ') && (place.prefix || !first)) out += ' ';
      out += part;
    });
  }

  void operator()(const PreTokenizer::Metaspace& rule) {
    using Prefix = PreTokenizer::Metaspace::Prefix;
    rewrite([&](std::string_view part, std::string& out, bool first) {
      const bool here = rule.prefix == Prefix::Always ? place.prefix || !first
                                                      : rule.prefix == Prefix::First && first &&
                                                            place.starts_text && place.prefix;
      if (here && !part.starts_with(' ') && !part.starts_with(rule.symbol)) out += rule.symbol;
      for (const char c : part) {
        if (c == ' ') {
          out += rule.symbol;
        } else {
          out += c;
        }
      }
    });
  }

  void operator()(const PreTokenizer::ByteAlphabet&) {
    rewrite([](std::string_view part, std::string& out, bool) {
      for (const char c : part) utf8_append(byte_character(static_cast<uint8_t>(c)), out);
    });
    in_alphabet = true;
  }

  void leave_alphabet() {
    rewrite([](std::string_view part, std::string& out, bool) {
      check(append_bytes_of(part, out), "steps after ByteAlphabet write its characters alone");
    });
  }

  template <class Write>
  void rewrite(const Write& write) {
    std::string out;
    out.reserve(parts.text.size() + 16);
    for (Span& part : parts.spans) {
      const bool first = &part == parts.spans.data();
      const uint32_t begin = static_cast<uint32_t>(out.size());
      write(parts.text.substr(part.begin, part.end - part.begin), out, first);
      part = {begin, static_cast<uint32_t>(out.size())};
    }
    parts.own = std::move(out);
    parts.text = parts.own;
  }
};

}  // namespace

std::unique_ptr<PreTokenizer::Parts> PreTokenizer::cut(std::string_view text, Place place) const {
  auto parts = std::make_unique<Parts>();
  parts->text = text;
  if (!text.empty()) parts->spans.push_back({0, static_cast<uint32_t>(text.size())});
  Cut cut{*parts, place};
  for (const Step& step : steps_) std::visit(cut, step);
  if (cut.in_alphabet) cut.leave_alphabet();
  return parts;
}

}  // namespace skald
