#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/base/half.h"
#include "tests/catch.h"

using namespace skald;

namespace {

bool is_f16_nan(uint32_t bits) { return (bits & 0x7fff) > 0x7c00; }

// The value that IEEE 754 defines for the bits, computed with powers of two.
double f16_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                           : exponent == 31 ? std::numeric_limits<double>::infinity()
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("all 65536 f16 values convert to the standard's value in f32 and back to the same bits") {
  int wrong_value = 0, wrong_bits = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (is_f16_nan(bits)) {
      wrong_value += !std::isnan(value);
      wrong_bits += !is_f16_nan(f32_to_f16(value));
      continue;
    }
    wrong_value += f32_to_bits(value) != f32_to_bits(static_cast<float>(f16_value(bits)));
    wrong_bits += f32_to_f16(value) != bits;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_bits == 0);
}

TEST_CASE("f32 to f16 rounds to the nearest, ties to even") {
  int wrong = 0;
  // Between each pair of neighbouring finite values.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<float>(f16_value(bits));
    const auto high = static_cast<float>(f16_value(bits + 1));
    const float middle = (low + high) / 2;  // exact, because f32 has 13 more bits of fraction
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    wrong += f32_to_f16(middle) != even;
    wrong += f32_to_f16(-middle) != (even | 0x8000);
    wrong += f32_to_f16(std::nextafter(middle, low)) != bits;
    wrong += f32_to_f16(std::nextafter(middle, high)) != bits + 1;
  }
  CHECK(wrong == 0);
  CHECK(f32_to_f16(65519.996f) == 0x7bff);  // the largest value that rounds to a finite one
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(-1e30f) == 0xfc00);
  CHECK(f32_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(f32_to_f16(-0.0f) == 0x8000);
}

TEST_CASE("all 65536 bf16 values convert to f32 and back to the same bits") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    const uint16_t back = f32_to_bf16(value);
    wrong += std::isnan(value) ? !std::isnan(bf16_to_f32(back)) : back != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("f32 to bf16 rounds to the nearest, ties to even") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000;
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    wrong += f32_to_bf16(bits_to_f32(middle)) != even;
    wrong += f32_to_bf16(bits_to_f32(middle | 0x80000000u)) != (even | 0x8000);
    wrong += f32_to_bf16(bits_to_f32(middle - 1)) != bits;
    wrong += f32_to_bf16(bits_to_f32(middle + 1)) != bits + 1;
  }
  CHECK(wrong == 0);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
}
