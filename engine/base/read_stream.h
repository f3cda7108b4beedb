// Reads what is left of a stream. An iterator over the stream's buffer would throw the library's
// own exception where the disk fails; here in.bad() is then true, and the bytes before it are
// returned.
#pragma once

#include <iosfwd>
#include <string>

namespace skald {

std::string rest_of(std::istream& in);

}  // namespace skald
