#include "engine/grammar/unicode_properties.h"

#include <algorithm>
#include <array>
#include <memory>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/error.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {
namespace {

// A general category by its short name, and the other names that ECMAScript gives it.
struct Category {
  std::string_view name, others;
};

constexpr std::array kCategories = {
    Category{"C", "Other"},
    Category{"Cc", "Control cntrl"},
    Category{"Cf", "Format"},
    Category{"Cn", "Unassigned"},
    Category{"Co", "Private_Use"},
    Category{"Cs", "Surrogate"},
    Category{"L", "Letter"},
    Category{"LC", "Cased_Letter"},
    Category{"Ll", "Lowercase_Letter"},
    Category{"Lm", "Modifier_Letter"},
    Category{"Lo", "Other_Letter"},
    Category{"Lt", "Titlecase_Letter"},
    Category{"Lu", "Uppercase_Letter"},
    Category{"M", "Mark Combining_Mark"},
    Category{"Mc", "Spacing_Mark"},
    Category{"Me", "Enclosing_Mark"},
    Category{"Mn", "Nonspacing_Mark"},
    Category{"N", "Number"},
    Category{"Nd", "Decimal_Number digit"},
    Category{"Nl", "Letter_Number"},
    Category{"No", "Other_Number"},
    Category{"P", "Punctuation punct"},
    Category{"Pc", "Connector_Punctuation"},
    Category{"Pd", "Dash_Punctuation"},
    Category{"Pe", "Close_Punctuation"},
    Category{"Pf", "Final_Punctuation"},
    Category{"Pi", "Initial_Punctuation"},
    Category{"Po", "Other_Punctuation"},
    Category{"Ps", "Open_Punctuation"},
    Category{"S", "Symbol"},
    Category{"Sc", "Currency_Symbol"},
    Category{"Sk", "Modifier_Symbol"},
    Category{"Sm", "Math_Symbol"},
    Category{"So", "Other_Symbol"},
    Category{"Z", "Separator"},
    Category{"Zl", "Line_Separator"},
    Category{"Zp", "Paragraph_Separator"},
    Category{"Zs", "Space_Separator"},
};

// Binary properties of ECMAScript 2024; the library may lack some.
constexpr std::string_view kBinary =
    "Any ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Bidi_Control Bidi_C Bidi_Mirrored Bidi_M "
    "Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM "
    "Changes_When_Lowercased CWL Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT "
    "Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep Diacritic "
    "Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase "
    "Emoji_Presentation EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base "
    "Grapheme_Extend Gr_Ext Hex_Digit Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST "
    "ID_Continue IDC ID_Start IDS Ideographic Ideo Join_Control Join_C Logical_Order_Exception "
    "LOE Lowercase Lower Math Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn "
    "Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI "
    "Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation Term Unified_Ideograph UIdeo "
    "Uppercase Upper Variation_Selector VS White_Space space XID_Continue XIDC XID_Start XIDS";

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::optional<std::string> category(std::string_view name) {
  for (const Category& one : kCategories) {
    if (name != one.name && !has_word(one.others, name)) continue;
    return one.name == "LC" ? "L&" : std::string(one.name);
  }
  return {};
}

// Scripts are not listed here: the library knows them, but also spellings such as "gre ek".
bool may_be_script(std::string_view name) {
  if (name.empty() || name[0] < 'A' || name[0] > 'Z') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  });
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatches {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

// Longest runs of characters with the property. nullptr: the library does not know it.
Code compile(const std::string& property) {
  const std::string pattern = "\\p{" + property + "}++";
  int error = 0;
  size_t where = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (code)
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // ten times as fast, if there is one
  return code;
}

// The ways in which versions of the library may write the property.
std::vector<std::string> spellings(std::string_view name) {
  const size_t equals = name.find('=');
  if (equals == name.npos) {
    if (auto found = category(name)) return {*found};
    if (name == "Assigned") return {"^Cn"};
    return has_word(kBinary, name) ? std::vector{std::string(name)} : std::vector<std::string>{};
  }
  const std::string_view property = name.substr(0, equals);
  const std::string value(name.substr(equals + 1));
  if (property == "General_Category" || property == "gc") {
    const auto found = category(value);
    return found ? std::vector{*found} : std::vector<std::string>{};
  }
  if (!may_be_script(value) || category(value)) return {};
  // Before 10.40, PCRE2 knew only scripts, without a prefix.
  if (property == "Script" || property == "sc") return {"sc:" + value, value};
  if (property == "Script_Extensions" || property == "scx") return {"scx:" + value};
  return {};
}

}  // namespace

const CharClass* UnicodeProperties::find(std::string_view name) {
  constexpr size_t kLongestName = 60;
  if (name.size() > kLongestName) return nullptr;
  auto known = known_.find(name);
  if (known == known_.end()) {
    std::optional<CharClass> chars;
    for (const std::string& spelling : spellings(name)) {
      if ((chars = search(spelling))) break;
    }
    known = known_.emplace(name, std::move(chars)).first;
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<CharClass> UnicodeProperties::search(const std::string& spelling) {
  const Code code = compile(spelling);
  if (!code) return {};
  if (characters_.empty()) {
    for (const CharRange& range : any_char()) {
      for (char32_t c = range.first; c <= range.last; ++c) append_utf8(c, characters_);
    }
  }
  const std::unique_ptr<pcre2_match_data, FreeMatches> data(
      pcre2_match_data_create_from_pattern(code.get(), nullptr));
  if (!data) fail(Exit::Memory, "out of memory for the characters of a Unicode property");
  CharClass chars;
  size_t at = 0;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(characters_.data());
  while (pcre2_match(code.get(), subject, characters_.size(), at, PCRE2_NO_UTF_CHECK, data.get(),
                     nullptr) > 0) {
    const size_t begin = pcre2_get_ovector_pointer(data.get())[0];
    at = pcre2_get_ovector_pointer(data.get())[1];
    chars.push_back({character_at(begin), character_before(at)});
  }
  return normalized(std::move(chars));
}

char32_t UnicodeProperties::character_at(size_t at) const {
  char32_t c = 0;
  check(decode_utf8(characters_, at, c), "a character begins here");
  return c;
}

char32_t UnicodeProperties::character_before(size_t at) const {
  do --at;
  while ((characters_[at] & 0xC0) == 0x80);
  return character_at(at);
}

}  // namespace skald::grammar
