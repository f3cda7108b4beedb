#include "app/schema/parts.h"

namespace skald {
namespace {

#define SKALD_MONTH_DAYS                                                                           \
  "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]" \
  "|2[0-8]))"
#define SKALD_YEAR "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define SKALD_LEAP_YEAR \
  "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define SKALD_DATE "(" SKALD_YEAR "-" SKALD_MONTH_DAYS "|" SKALD_LEAP_YEAR "-02-29)"
#define SKALD_TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?"
#define SKALD_ZONE "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define SKALD_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define SKALD_LABEL "[A-Za-z0-9]([A-Za-z0-9]|-[A-Za-z0-9]){0,30}"
#define SKALD_HEX4 "[0-9A-Fa-f]{1,4}"

struct Format {
  std::string_view name;
  const char* pattern;
};

constexpr Format kFormats[] = {
    {"date", SKALD_DATE},
    {"time", SKALD_TIME SKALD_ZONE},
    {"date-time", SKALD_DATE "T" SKALD_TIME SKALD_ZONE},
    {"duration",
     "P([0-9]{1,9}(D|W|Y([0-9]{1,9}M([0-9]{1,9}D)?)?|M([0-9]{1,9}D)?)|T[0-9]{1,9}(S|H([0-9]{1,9}M(["
     "0-"
     "9]{1,9}S)?)?|M([0-9]{1,9}S)?))"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", SKALD_BYTE "(\\." SKALD_BYTE "){3}"},
    {"ipv6", SKALD_HEX4 "(:" SKALD_HEX4 "){7}"},
    {"hostname", SKALD_LABEL "(\\." SKALD_LABEL "){0,3}"},
    {"email",
     "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,20}){0,1}@" SKALD_LABEL "(\\." SKALD_LABEL "){1,3}"},
    {"uri",
     "[a-z][a-z0-9+.-]{1,15}://" SKALD_LABEL "(\\." SKALD_LABEL "){0,3}(:[1-9][0-9]{0,3})?"
     "(/[A-Za-z0-9._~-]{0,100}){0,20}(\\?[A-Za-z0-9._~=&-]{0,200})?(#[A-Za-z0-9._~-]{0,100})?"},
    // These say how to show a string, not what it holds.
    {"password", nullptr},
    {"binary", nullptr},
};

}  // namespace

bool is_format(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return true;
  }
  return false;
}

const char* format_pattern(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format.pattern;
  }
  return nullptr;
}

}  // namespace skald
