#include "engine/base/float8.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace skald {
namespace {

TEST_CASE("every E4M3 number keeps its bits, and numbers between two go to the nearest") {
  for (int bits = 0; bits < 0x7f; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    const float value = e4m3_to_f32(code);
    CAPTURE(bits, value);
    CHECK(f32_to_e4m3(value) == code);
    CHECK(f32_to_e4m3(-value) == (code | 0x80));
    if (bits == 0x7e) continue;
    const float next = e4m3_to_f32(static_cast<uint8_t>(bits + 1)), middle = (value + next) / 2;
    const int even = bits % 2 == 0 ? bits : bits + 1;
    CHECK(f32_to_e4m3(middle) == even);
    CHECK(f32_to_e4m3(-middle) == (even | 0x80));
    CHECK(f32_to_e4m3(std::nextafter(middle, value)) == bits);
    CHECK(f32_to_e4m3(std::nextafter(middle, next)) == bits + 1);
  }
}

TEST_CASE("E4M3 ends at 448, and has one NaN for all that is not finite") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(e4m3_to_f32(0x7e) == 448);
  for (const float large : {448.0f, 449.0f, 480.0f, 1e30f}) {
    CHECK(f32_to_e4m3(large) == 0x7e);
    CHECK(f32_to_e4m3(-large) == 0xfe);
  }
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    CHECK(is_e4m3_nan(f32_to_e4m3(bad)));
  }
  CHECK(f32_to_e4m3(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(f32_to_e4m3(-0.0f) == 0x80);
}

}  // namespace
}  // namespace skald
