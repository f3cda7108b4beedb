// A fuzz target is one function over bytes, in a file of its own; linked with libFuzzer, or with
// driver.cpp where the compiler has none. It must return 0 and let nothing escape: an Error that
// refuses the bytes is a good end, a crash, a hang or a sanitizer's finding is not.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
