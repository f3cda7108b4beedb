#include "tokenizer/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

// Characters below U+0300 are unchanged in NFC.
bool is_surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// Sorts runs of combining marks into canonical order. The library would take quadratic time for a
// long run.
void sort_marks(std::vector<int32_t>& characters) {
  const auto mark_class = [](int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto at = characters.begin(); at != characters.end();) {
    if (mark_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end =
        std::find_if(at, characters.end(), [&](int32_t c) { return mark_class(c) == 0; });
    std::stable_sort(at, end, [&](int32_t a, int32_t b) { return mark_class(a) < mark_class(b); });
    at = end;
  }
}

struct Apply {
  std::string& text;
  bool prefix;

  void operator()(UnicodeForm form) { text = unicode_normalized(text, form); }

  void operator()(const Normalizer::Prepend& step) {
    if (prefix && !text.empty()) text.insert(0, step.text);
  }

  void operator()(const Normalizer::Replace& step) {
    std::vector<Span> matches;
    Regex::Search(step.pattern).find_all(text, matches);
    if (matches.empty()) return;
    if (matches.size() * step.by.size() > kMostBytes) {
      fail(Exit::Failed, "a text of ", text.size(), " bytes would exceed ", kMostBytes,
           " bytes in the tokenizer's normalization");
    }
    std::string out;
    out.reserve(text.size() + matches.size() * step.by.size());
    size_t from = 0;
    for (const Span& match : matches) {
      out.append(text, from, match.begin - from).append(step.by);
      from = match.end;
    }
    text = out.append(text, from);
  }
};

}  // namespace

std::string unicode_normalized(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::Nfc ? is_surely_nfc(text) : is_ascii(text)) return std::string(text);
  const bool compatible = form == UnicodeForm::Nfkc || form == UnicodeForm::Nfkd;
  const bool compose = form == UnicodeForm::Nfc || form == UnicodeForm::Nfkc;
  const auto with = [](int a, int b) { return static_cast<utf8proc_option_t>(a | b); };
  const auto decompose =
      with(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, compatible ? UTF8PROC_COMPAT : 0);
  std::vector<int32_t> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    check(length > 0, "text to be normalized is UTF-8");
    int32_t parts[32];  // one character has 18 at most
    const auto count =
        utf8proc_decompose_char(static_cast<int32_t>(utf8_code_point(text.substr(0, length))),
                                parts, 32, decompose, nullptr);
    check(count >= 0 && count <= 32, "the parts of one character fit");
    characters.insert(characters.end(), parts, parts + count);
    text.remove_prefix(length);
  }
  sort_marks(characters);
  if (compose) {
    const auto count = utf8proc_normalize_utf32(characters.data(),
                                                static_cast<utf8proc_ssize_t>(characters.size()),
                                                with(UTF8PROC_STABLE, UTF8PROC_COMPOSE));
    check(count >= 0, "composing characters works");
    characters.resize(static_cast<size_t>(count));
  }
  std::string out;
  for (const int32_t c : characters) utf8_append(static_cast<char32_t>(c), out);
  return out;
}

void Normalizer::add(Step step) { steps_.push_back(std::move(step)); }

std::string Normalizer::apply(std::string text, bool prefix) const {
  for (const Step& step : steps_) std::visit(Apply{text, prefix}, step);
  return text;
}

}  // namespace skald
