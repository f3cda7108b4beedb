// Strings and numbers as rules.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "engine/base/error.h"

namespace skald {

using grammar::CharDfa;
using grammar::NodeId;

namespace {

constexpr size_t kManyTexts = 64;  // more texts share their beginnings and ends
constexpr uint64_t kMostSteps = 20'000;
// The work that an automaton may take which only makes masks quicker: some milliseconds, enough for
// [a-z0-9_-]{160} anywhere in a string.
constexpr size_t kFewEdges = 320'000;

NodeId as_is(grammar::Rules& rules, const grammar::CharClass& chars) { return rules.one_of(chars); }

// The decimal texts whose value is a multiple of `step`. nullopt if there are too many states.
std::optional<CharDfa> multiples(const NumberBound& step) {
  std::string digits = step.whole + step.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const uint64_t places = step.fraction.size();  // digits after the point that may differ from 0
  if (digits.size() > 6) return std::nullopt;
  const uint64_t by = std::stoull(digits);
  if (by * (places + 2) > kMostSteps) return std::nullopt;
  // State 0 is the beginning of the text. Then, for each remainder of the digits so far by `by`,
  // one state within the whole part, and one for each number of digits after the point.
  std::vector<CharDfa::State> states(1 + by * (places + 2));
  const auto whole = [&](uint64_t rest) { return static_cast<uint32_t>(1 + rest); };
  const auto after = [&](uint64_t place, uint64_t rest) {
    return static_cast<uint32_t>(1 + by * (place + 1) + rest);
  };
  const auto is_end = [&](uint64_t place, uint64_t rest) {
    for (uint64_t i = place; i < places; ++i) rest = rest * 10 % by;
    return rest == 0;
  };
  states[0].arcs.push_back({'-', '-', whole(0)});
  for (char32_t digit = '0'; digit <= '9'; ++digit) {
    const uint64_t d = digit - '0';
    states[0].arcs.push_back({digit, digit, whole(d % by)});
  }
  for (uint64_t rest = 0; rest < by; ++rest) {
    auto& arcs = states[whole(rest)].arcs;
    states[whole(rest)].ends = is_end(0, rest);
    arcs.push_back({'.', '.', after(0, rest)});
    for (uint64_t d = 0; d < 10; ++d) {
      const auto c = static_cast<char32_t>('0' + d);
      arcs.push_back({c, c, whole((rest * 10 + d) % by)});
      for (uint64_t place = 0; place < places; ++place) {
        states[after(place, rest)].arcs.push_back({c, c, after(place + 1, (rest * 10 + d) % by)});
      }
    }
    for (uint64_t place = 0; place <= places; ++place) {
      states[after(place, rest)].ends = is_end(place, rest);
    }
    states[after(places, rest)].arcs.push_back({'0', '0', after(places, rest)});
  }
  return CharDfa::of_states(std::move(states));
}

}  // namespace

NodeId SchemaCompiler::build_texts(const std::vector<std::string>& texts) {
  if (texts.size() <= kManyTexts) {
    std::vector<NodeId> nodes;
    nodes.reserve(texts.size());
    for (const std::string& text : texts) nodes.push_back(parts_.literal(text));
    return rules_.choice(nodes);
  }
  std::vector<std::string> written;
  written.reserve(texts.size());
  for (const std::string& text : texts) written.push_back(dump(text));
  return CharDfa::of_texts(std::move(written)).add_to(rules_, as_is);
}

std::optional<CharDfa> SchemaCompiler::string_dfa(const StringForm& form) {
  if (form.values) return CharDfa::of_texts(*form.values);
  std::optional<CharDfa> all = CharDfa::any();
  const auto restrict_to = [&](const CharDfa* other, bool matches) {
    if (!all || !other) {
      all = std::nullopt;
      return;
    }
    const auto inverse = matches ? std::nullopt : other->without();
    if (!matches && !inverse) {
      all = std::nullopt;
    } else {
      all = all->with(matches ? *other : *inverse);
    }
  };
  for (const Pattern& pattern : form.patterns) {
    restrict_to(expander_.languages().dfa(pattern.language), pattern.matches);
  }
  if (!form.excluded.empty()) {
    const CharDfa texts = CharDfa::of_texts(form.excluded);
    restrict_to(&texts, false);
  }
  return all ? all->with_length(form.least, form.most) : all;
}

NodeId SchemaCompiler::build_string(const StringForm& form, const std::string& path) {
  if (form.values) return build_texts(*form.values);
  const bool limited = form.least > 0 || form.most != kNoLimit;
  if (form.patterns.empty() && form.excluded.empty()) {
    return parts_.string_of_length(to_count(form.least), to_count(form.most));
  }
  if (form.patterns.empty() && !limited) return parts_.string_except(form.excluded);
  if (form.patterns.size() == 1 && form.patterns[0].matches && form.excluded.empty()) {
    const grammar::Regex& regex = expander_.languages().regex(form.patterns[0].language);
    // Formats and patterns repeat within a schema.
    std::optional<NodeId>& known = strings_[{form.patterns[0].language, form.least, form.most}];
    if (known) return *known;
    const auto keep = [&](NodeId node) {
      const auto rule = rules_.add(concat(source_, ": ", path));
      rules_.define(rule, node);
      known = rules_.call(rule);
      return *known;
    };
    if (!needs_automaton(regex)) {
      if (!limited) {
        const auto dfa = counts_beside_loops(regex) ? CharDfa::of(regex, kFewEdges) : std::nullopt;
        return keep(dfa ? parts_.string_by(*dfa) : parts_.string_by(regex));
      }
      if (const auto bounded = with_length(regex, form.least, form.most)) {
        return keep(parts_.string_by(*bounded));
      }
    }
    if (const auto dfa = string_dfa(form)) return keep(parts_.string_by(*dfa));
  }
  if (const auto dfa = string_dfa(form)) return parts_.string_by(*dfa);
  // The same form without the keywords that make it too large.
  StringForm simpler = form;
  if (limited) {
    simpler.least = 0;
    simpler.most = kNoLimit;
    expander_.note(path, "the length beside a pattern is too large to be kept");
  } else if (!form.excluded.empty()) {
    simpler.excluded.clear();
    expander_.note(path, "excluded values beside a pattern are too large to be kept");
  } else {
    simpler.patterns.pop_back();
    expander_.note(path, "several patterns are too large to be kept together");
    if (form.patterns.size() == 1) {
      fail(Exit::Usage, source_, ": ", path, ": the pattern is too large; simplify it");
    }
  }
  return build_string(simpler, path);
}

NodeId SchemaCompiler::build_number(const NumberForm& form, const std::string& path) {
  const bool bounded = form.low || form.high;
  const bool zeros = !expander_.document().is_draft_4();
  const bool plain =
      !form.values && !form.fractional && form.multiples.empty() && form.excluded.empty();
  const bool from_0 = form.low && !form.high && !form.low->exclusive && form.low->whole == "0" &&
                      form.low->fraction.empty();
  if (plain && !bounded) {
    return !form.integer ? parts_.number() : zeros ? parts_.integer() : parts_.plain_integer();
  }
  if (plain && from_0 && !form.integer) return parts_.number_from_0();
  const auto known = std::find_if(numbers_.begin(), numbers_.end(),
                                  [&](const auto& one) { return one.first == form; });
  if (known != numbers_.end()) return known->second;
  const size_t notes = expander_.notes().size();
  const NodeId node = make_number(form, path);
  if (expander_.notes().size() > notes) return node;  // each place gets its note
  const auto rule = rules_.add(concat(source_, ": ", path));
  rules_.define(rule, node);
  return numbers_.emplace_back(form, rules_.call(rule)).second;
}

NodeId SchemaCompiler::make_number(const NumberForm& form, const std::string& path) {
  const auto literal = [&](const NumberBound& value) {
    NumberBound bound = value;
    bound.exclusive = false;
    return value.fraction.empty() ? integer_between({bound, bound}, true)
                                  : number_between({bound, bound});
  };
  grammar::Regex regex;
  if (form.values) {
    regex.kind = grammar::Regex::Kind::Choice;
    for (const NumberBound& value : *form.values) regex.parts.push_back(literal(value));
    return add_regex(rules_, regex, as_is);
  }
  const NumberBounds bounds{form.low, form.high};
  const bool zeros = !expander_.document().is_draft_4();
  regex = form.integer ? integer_between(bounds, zeros) : number_between(bounds);
  if (!form.fractional && form.multiples.empty() && form.excluded.empty())
    return add_regex(rules_, regex, as_is);
  std::optional<CharDfa> all = CharDfa::of(regex);
  const auto restrict_to = [&](const std::optional<CharDfa>& other, bool matches,
                               const char* what) {
    const auto kept = other && !matches ? other->without() : other;
    auto both = all && kept ? all->with(*kept) : std::nullopt;
    if (both) {
      all = std::move(both);
    } else {
      expander_.note(path, concat(what, " is too large to be kept"));
    }
  };
  for (const Multiple& multiple : form.multiples) {
    restrict_to(multiples(multiple.step), multiple.matches, "multipleOf");
  }
  if (form.fractional) {
    if (!fractional_) fractional_ = CharDfa::of(integer_between({}, true))->without();
    restrict_to(fractional_, true, "not an integer");
  }
  if (!form.excluded.empty()) {
    grammar::Regex texts{.kind = grammar::Regex::Kind::Choice};
    for (const NumberBound& value : form.excluded) texts.parts.push_back(literal(value));
    restrict_to(CharDfa::of(texts), false, "an excluded number");
  }
  if (!all) return add_regex(rules_, regex, as_is);
  return all->add_to(rules_, as_is);
}

}  // namespace skald
