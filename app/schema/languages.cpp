#include "app/schema/languages.h"

#include "engine/base/error.h"

namespace skald {

using grammar::RegexMatch;

uint32_t Languages::of_pattern(const std::string& pattern, const std::string& place) {
  const auto [found, fresh] =
      numbers_.try_emplace("p" + pattern, static_cast<uint32_t>(languages_.size()));
  if (fresh) {
    try {
      languages_.push_back(
          {grammar::parse_regex(pattern, place, RegexMatch::Anywhere, properties_), place});
    } catch (...) {
      numbers_.erase(found);
      throw;
    }
  }
  return found->second;
}

std::optional<uint32_t> Languages::of_format(const std::string& format) {
  const std::optional<std::string> pattern = format_pattern(format);
  if (!pattern) return std::nullopt;
  const auto [found, fresh] =
      numbers_.try_emplace("f" + format, static_cast<uint32_t>(languages_.size()));
  if (fresh) {
    languages_.push_back({grammar::parse_regex(*pattern, format, RegexMatch::Whole), format});
  }
  return found->second;
}

const grammar::CharDfa* Languages::dfa(uint32_t language) {
  Language& one = languages_[language];
  if (!one.tried) {
    one.tried = true;
    one.dfa = grammar::CharDfa::of(one.regex);
  }
  return one.dfa ? &*one.dfa : nullptr;
}

bool Languages::matches(uint32_t language, const std::string& text) {
  const grammar::CharDfa* dfa = this->dfa(language);
  if (!dfa) {
    fail(Exit::Usage, languages_[language].place,
         ": the pattern is too large to be combined with other keywords; simplify it");
  }
  return dfa->matches(text);
}

}  // namespace skald
