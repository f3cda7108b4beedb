// Formats of strings as regular expressions, by their standards: RFC 3339 (dates, times,
// durations), 5321 and 6531 (email), 1123 (hostname), 4291 (IPv6), 3986 and 3987 (URI, IRI), 4122
// (UUID), 6570 (URI template), 6901 (JSON pointer).
#include "app/schema/parts.h"

namespace skald {
namespace {

#define SKALD_MONTH_DAYS                                                                           \
  "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]" \
  "|2[0-8]))"
#define SKALD_LEAP_YEAR \
  "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[048]|[2468][048]|[13579][26])00)"
#define SKALD_DATE "([0-9]{4}-" SKALD_MONTH_DAYS "|" SKALD_LEAP_YEAR "-02-29)"
// A leap second ends the day in UTC; with an offset it may stand in any hour.
#define SKALD_FRACTION "(\\.[0-9]{1,12})?"
#define SKALD_ZONE "([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define SKALD_TIME                                                       \
  "((([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" SKALD_FRACTION SKALD_ZONE \
  ")|(23:59:60" SKALD_FRACTION "([Zz]|[+-]00:00)))"
#define SKALD_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define SKALD_IPV4 SKALD_BYTE "(\\." SKALD_BYTE "){3}"
#define SKALD_ALNUM "[A-Za-z0-9]"
#define SKALD_INNER "[A-Za-z0-9-]"
// Hyphens as third and fourth character announce an encoding, and xn-- is the only one.
#define SKALD_LABEL                                                                 \
  "(" SKALD_ALNUM "(" SKALD_INNER "?" SKALD_ALNUM                                   \
  ")?|" SKALD_ALNUM SKALD_INNER SKALD_INNER SKALD_ALNUM "|" SKALD_ALNUM SKALD_INNER \
  "(" SKALD_ALNUM SKALD_INNER "|-" SKALD_ALNUM ")" SKALD_INNER "{0,58}" SKALD_ALNUM \
  "|[Xx][Nn]--" SKALD_INNER "{0,58}" SKALD_ALNUM ")"
#define SKALD_HOSTNAME SKALD_LABEL "(\\." SKALD_LABEL ")*"
#define SKALD_H "[0-9A-Fa-f]{1,4}"
#define SKALD_LAST32 "(" SKALD_H ":" SKALD_H "|" SKALD_IPV4 ")"
#define SKALD_IPV6                                                                                \
  "((" SKALD_H ":){6}" SKALD_LAST32 "|::(" SKALD_H ":){5}" SKALD_LAST32 "|(" SKALD_H              \
  ")?::(" SKALD_H ":){4}" SKALD_LAST32 "|((" SKALD_H ":){0,1}" SKALD_H ")?::(" SKALD_H            \
  ":){3}" SKALD_LAST32 "|((" SKALD_H ":){0,2}" SKALD_H ")?::(" SKALD_H ":){2}" SKALD_LAST32       \
  "|((" SKALD_H ":){0,3}" SKALD_H ")?::" SKALD_H ":" SKALD_LAST32 "|((" SKALD_H ":){0,4}" SKALD_H \
  ")?::" SKALD_LAST32 "|((" SKALD_H ":){0,5}" SKALD_H ")?::" SKALD_H "|((" SKALD_H                \
  ":){0,6}" SKALD_H ")?::)"
#define SKALD_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
// RFC 5321: text in quotes, and addresses in brackets.
#define SKALD_QUOTED "\"([ !#-\\[\\]-~]|\\\\[ -~])*\""
#define SKALD_DOMAIN "(" SKALD_HOSTNAME "|\\[(" SKALD_IPV4 "|IPv6:" SKALD_IPV6 ")\\])"
#define SKALD_PERCENT "%[0-9A-Fa-f]{2}"
#define SKALD_PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|" SKALD_PERCENT ")"
#define SKALD_USER "(([A-Za-z0-9._~!$&'()*+,;=:-]|" SKALD_PERCENT ")*@)?"
#define SKALD_HOST "(\\[" SKALD_IPV6 "\\]|([A-Za-z0-9._~!$&'()*+,;=-]|" SKALD_PERCENT ")*)"
#define SKALD_SEGMENTS "(/" SKALD_PCHAR "*)*"
#define SKALD_AUTHORITY "//" SKALD_USER SKALD_HOST "(:[0-9]{0,5})?" SKALD_SEGMENTS
#define SKALD_ROOTED "/(" SKALD_PCHAR "+" SKALD_SEGMENTS ")?"
#define SKALD_QUERY "(\\?(" SKALD_PCHAR "|[/?])*)?(#(" SKALD_PCHAR "|[/?])*)?"
#define SKALD_SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define SKALD_URI                                                                      \
  SKALD_SCHEME "(" SKALD_AUTHORITY "|" SKALD_ROOTED "|" SKALD_PCHAR "+" SKALD_SEGMENTS \
               "|)" SKALD_QUERY
#define SKALD_RELATIVE                                                                \
  "(" SKALD_AUTHORITY "|" SKALD_ROOTED "|([A-Za-z0-9._~!$&'()*+,;=@-]|" SKALD_PERCENT \
  ")+" SKALD_SEGMENTS "|)" SKALD_QUERY
#define SKALD_N "[0-9]{1,9}"
#define SKALD_T \
  "T(" SKALD_N "H(" SKALD_N "M(" SKALD_N "S)?)?|" SKALD_N "M(" SKALD_N "S)?|" SKALD_N "S)"
#define SKALD_DAYS \
  "(" SKALD_N "Y(" SKALD_N "M(" SKALD_N "D)?)?|" SKALD_N "M(" SKALD_N "D)?|" SKALD_N "D)"
#define SKALD_POINTER "(/([^~/]|~[01])*)*"

#define SKALD_NAME_CHAR "([A-Za-z0-9_]|" SKALD_PERCENT ")"
#define SKALD_VARIABLE SKALD_NAME_CHAR "(\\.?" SKALD_NAME_CHAR ")*(:[1-9][0-9]{0,3}|\\*)?"

// Characters of other scripts, and those for private use.
#define SKALD_UCS                                                                               \
  "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{" \
  "2FFFD}"                                                                                      \
  "\\u{30000}-\\u{3FFFD}\\u{E1000}-\\u{EFFFD}"
#define SKALD_PRIVATE "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"
#define SKALD_UCS_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u{A0}-\\u{10FFFF}-]+"

struct Format {
  std::string_view name;
  const char* pattern;
  bool international =
      false;  // what a URI does not reserve may be a character of another script too
};

constexpr Format kFormats[] = {
    {"date", SKALD_DATE},
    {"time", SKALD_TIME},
    {"date-time", SKALD_DATE "[Tt]" SKALD_TIME},
    {"duration", "P(" SKALD_N "W|" SKALD_DAYS "(" SKALD_T ")?|" SKALD_T ")"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"ipv4", SKALD_IPV4},
    {"ipv6", SKALD_IPV6},
    {"hostname", SKALD_HOSTNAME},
    {"email", "(" SKALD_ATOM "(\\." SKALD_ATOM ")*|" SKALD_QUOTED ")@" SKALD_DOMAIN},
    {"uri", SKALD_URI},
    {"uri-reference", "(" SKALD_URI "|" SKALD_RELATIVE ")"},
    {"iri", SKALD_URI, true},
    {"iri-reference", "(" SKALD_URI "|" SKALD_RELATIVE ")", true},
    {"uri-template", "([!#$&(-;=?-\\[\\]_a-z~" SKALD_UCS SKALD_PRIVATE "]|" SKALD_PERCENT
                     "|\\{[+#./;?&=,!@|]?" SKALD_VARIABLE "(," SKALD_VARIABLE ")*\\})*"},
    {"idn-email", SKALD_UCS_ATOM "(\\." SKALD_UCS_ATOM ")*@" SKALD_DOMAIN},
    {"idn-hostname", SKALD_HOSTNAME},  // as DNS writes it, with xn--
    {"json-pointer", SKALD_POINTER},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" SKALD_POINTER ")"},
};

}  // namespace

std::optional<std::string> format_pattern(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name != name) continue;
    std::string pattern = format.pattern;
    if (!format.international) return pattern;
    constexpr std::string_view kUnreserved = "A-Za-z0-9._~";
    for (size_t at = 0; (at = pattern.find(kUnreserved, at)) != std::string::npos;) {
      at += kUnreserved.size();
      pattern.insert(at, SKALD_UCS);
    }
    return pattern;
  }
  return std::nullopt;
}

}  // namespace skald
