// A JSON object in a line that ends with a checksum of the bytes before it, so that a line which
// was damaged or edited is not trusted. Finds damage, not malice.
#pragma once

#include <string>
#include <string_view>

namespace skald {

// {"a":1} -> {"a":1,"checksum":"0123456789abcdef"}
std::string sealed_line(std::string object);

bool seal_fits(std::string_view line);

}  // namespace skald
