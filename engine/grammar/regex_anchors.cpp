#include "engine/grammar/regex_anchors.h"

#include <algorithm>
#include <functional>

namespace skald::grammar {
namespace {

Regex alternative_of_whole_text(const Regex& regex, RegexMatch match) {
  std::vector<Regex> parts = regex.kind == Regex::Kind::Sequence ? regex.parts : std::vector{regex};
  bool begin = match != RegexMatch::Anywhere, end = match == RegexMatch::Whole;
  // A ^ before which only lookahead stands, and a $ after which nothing stands.
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind == Regex::Kind::Look) continue;
    if (parts[i].kind != Regex::Kind::Begin || match == RegexMatch::Begin) break;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(i--));
    begin = true;
  }
  while (!parts.empty() && parts.back().kind == Regex::Kind::End) {
    parts.pop_back();
    end = true;
  }
  const Regex any = make::repeat(make::one_of(any_char()), 0, kUnbounded);
  if (!begin) parts.insert(parts.begin(), any);
  if (!end) parts.push_back(any);
  return make::sequence(std::move(parts));
}

}  // namespace

bool needs_automaton(const Regex& regex) {
  return regex.kind == Regex::Kind::Look || regex.kind == Regex::Kind::Begin ||
         regex.kind == Regex::Kind::End ||
         std::any_of(regex.parts.begin(), regex.parts.end(), needs_automaton);
}

bool counts_beside_loops(const Regex& regex) {
  constexpr uint32_t kMany = 16;
  bool counts = false, loops = false;
  const std::function<void(const Regex&)> look = [&](const Regex& part) {
    if (part.kind == Regex::Kind::Repeat) {
      loops |= part.most == kUnbounded;
      counts |= part.least >= kMany || (part.most >= kMany && part.most != kUnbounded);
    }
    std::for_each(part.parts.begin(), part.parts.end(), look);
  };
  look(regex);
  return counts && loops;
}

Regex whole_text(const Regex& regex, RegexMatch match) {
  if (regex.kind != Regex::Kind::Choice || regex.parts.empty())
    return alternative_of_whole_text(regex, match);
  std::vector<Regex> parts;
  parts.reserve(regex.parts.size());
  for (const Regex& part : regex.parts) parts.push_back(alternative_of_whole_text(part, match));
  return make::choice(std::move(parts));
}

}  // namespace skald::grammar
