#include "engine/grammar/regex_anchors.h"

#include <algorithm>
#include <span>

namespace skald::grammar {
namespace {

using make::choice;
using make::one_of;
using make::repeat;
using make::sequence;

bool contains_kind(const Regex& regex, Regex::Kind kind) {
  return regex.kind == kind ||
         std::any_of(regex.parts.begin(), regex.parts.end(),
                     [&](const Regex& part) { return contains_kind(part, kind); });
}

bool has_anchor(const Regex& regex) {
  return contains_kind(regex, Regex::Kind::Begin) || contains_kind(regex, Regex::Kind::End);
}

// ^ and $ become part of the structure: the texts of an expression whose begin is the text's begin
// (`begin`), and whose end is the text's end (`end`).
struct Context {
  bool begin, end;
};

bool matches_empty(const Regex& regex, Context at) {
  const auto empty = [&](const Regex& part) { return matches_empty(part, at); };
  switch (regex.kind) {
    case Regex::Kind::Class:
      return false;
    case Regex::Kind::Begin:
      return at.begin;
    case Regex::Kind::End:
      return at.end;
    case Regex::Kind::Sequence:
      return std::all_of(regex.parts.begin(), regex.parts.end(), empty);
    case Regex::Kind::Choice:
      return std::any_of(regex.parts.begin(), regex.parts.end(), empty);
    case Regex::Kind::Repeat:
      return regex.least == 0 || empty(regex.parts[0]);
    case Regex::Kind::Look:
      break;
  }
  throw UnplacedAnchor();
}

// The texts of at least one character; an empty Choice if there are none.
Regex filled(const Regex& regex, Context at);

Regex filled_sequence(std::span<const Regex> parts, Context at) {
  if (parts.empty()) return choice({});
  if (parts.size() == 1) return filled(parts[0], at);
  const Regex& first = parts[0];
  Regex rest = sequence({parts.begin() + 1, parts.end()});
  std::vector<Regex> choices;
  const auto add = [&](Regex one) {
    if (one.kind != Regex::Kind::Choice || !one.parts.empty()) choices.push_back(std::move(one));
  };
  // Both have characters, only the first has, only the rest has.
  Regex before = filled(first, {at.begin, false}), after = filled(rest, {false, at.end});
  const auto none = [](const Regex& r) { return r.kind == Regex::Kind::Choice && r.parts.empty(); };
  if (!none(before) && !none(after))
    choices.push_back(sequence({std::move(before), std::move(after)}));
  if (matches_empty(rest, {false, at.end})) add(filled(first, at));
  if (matches_empty(first, {at.begin, false})) add(filled(rest, at));
  return choice(std::move(choices));
}

Regex filled(const Regex& regex, Context at) {
  switch (regex.kind) {
    case Regex::Kind::Class:
      return regex;
    case Regex::Kind::Begin:
    case Regex::Kind::End:
      return choice({});
    case Regex::Kind::Sequence:
      if (!has_anchor(regex) && !matches_empty(regex, at)) return regex;
      return filled_sequence(regex.parts, at);
    case Regex::Kind::Choice: {
      std::vector<Regex> parts;
      for (const Regex& part : regex.parts) {
        Regex one = filled(part, at);
        if (one.kind != Regex::Kind::Choice || !one.parts.empty()) parts.push_back(std::move(one));
      }
      return choice(std::move(parts));
    }
    case Regex::Kind::Repeat: {
      const Regex& part = regex.parts[0];
      if (regex.most == 0) return choice({});
      if (!has_anchor(part)) {
        return repeat(matches_empty(part, at) ? filled(part, at) : part,
                      matches_empty(part, at) ? 1 : std::max<uint32_t>(regex.least, 1), regex.most);
      }
      // One copy, or a first, some between them, and a last.
      if (regex.least > 1 || (regex.most != 1 && regex.most != kUnbounded)) throw UnplacedAnchor();
      Regex one = filled(part, at);
      if (regex.most == 1) return one;
      Regex many = sequence({filled(part, {at.begin, false}),
                             repeat(filled(part, {false, false}), 0, kUnbounded),
                             filled(part, {false, at.end})});
      return choice({std::move(one), std::move(many)});
    }
    case Regex::Kind::Look:
      break;
  }
  throw UnplacedAnchor();
}

// An alternative, with what may stand before and after it.
Regex place_alternative(const Regex& regex, RegexMatch match) {
  std::vector<Regex> parts = regex.kind == Regex::Kind::Sequence ? regex.parts : std::vector{regex};
  bool begin = match != RegexMatch::Anywhere, end = match == RegexMatch::Whole;
  const auto any = [](uint32_t least) { return repeat(one_of(any_char()), least, kUnbounded); };
  // A ^ before which only lookahead stands, and a $ after which nothing stands.
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind == Regex::Kind::Look) continue;
    if (parts[i].kind != Regex::Kind::Begin) break;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(i--));
    begin = true;
  }
  while (!parts.empty() && parts.back().kind == Regex::Kind::End) {
    parts.pop_back();
    end = true;
  }
  const Regex core = sequence(std::move(parts));
  if (!has_anchor(core)) {
    std::vector<Regex> whole;
    if (!begin) whole.push_back(any(0));
    if (core.kind == Regex::Kind::Sequence) {
      whole.insert(whole.end(), core.parts.begin(), core.parts.end());
    } else {
      whole.push_back(core);
    }
    if (!end) whole.push_back(any(0));
    return sequence(std::move(whole));
  }
  std::vector<Regex> choices;
  for (const bool before : {false, true}) {
    for (const bool after : {false, true}) {
      if ((before && begin) || (after && end)) continue;
      const Context at{!before, !after};
      std::vector<Regex> whole;
      if (before) whole.push_back(any(1));
      Regex middle = filled(core, at);
      if (matches_empty(core, at)) middle = choice({std::move(middle), sequence({})});
      whole.push_back(std::move(middle));
      if (after) whole.push_back(any(1));
      choices.push_back(sequence(std::move(whole)));
    }
  }
  return choice(std::move(choices));
}

}  // namespace

bool has_look(const Regex& regex) { return contains_kind(regex, Regex::Kind::Look); }

Regex place_anchors(const Regex& regex, RegexMatch match) {
  if (regex.kind != Regex::Kind::Choice || regex.parts.empty())
    return place_alternative(regex, match);
  std::vector<Regex> parts;
  for (const Regex& part : regex.parts) parts.push_back(place_alternative(part, match));
  return choice(std::move(parts));
}

}  // namespace skald::grammar
