#include "app/files/sealed_line.h"

#include "engine/base/check.h"
#include "engine/base/sha256.h"

namespace skald {
namespace {

constexpr size_t kDigits = 16;

std::string seal_after(std::string_view before) {
  return ",\"checksum\":\"" + Sha256().add(before).hex().substr(0, kDigits) + "\"}";
}

}  // namespace

std::string sealed_line(std::string object) {
  check(object.size() > 2 && object.ends_with('}'), "a JSON object with a field");
  object.pop_back();
  object += seal_after(object);
  return object;
}

bool seal_fits(std::string_view line) {
  const size_t length = seal_after("").size();
  if (line.size() <= length) return false;
  const std::string_view before = line.substr(0, line.size() - length);
  return line.substr(before.size()) == seal_after(before);
}

}  // namespace skald
