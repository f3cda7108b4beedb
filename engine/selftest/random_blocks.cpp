#include "engine/selftest/random_blocks.h"

#include <cstring>

#include "engine/base/half.h"

namespace skald::selftest {

void set_scales(DType type, std::byte* block, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const auto f16 = [&](int offset, float size) {
    const uint16_t bits = f32_to_f16(size * normal(random));
    std::memcpy(block + offset, &bits, sizeof bits);
  };
  switch (type) {
    case DType::F32: {
      const float value = normal(random);
      std::memcpy(block, &value, sizeof value);
      break;
    }
    case DType::BF16: {
      const uint16_t bits = f32_to_bf16(normal(random));
      std::memcpy(block, &bits, sizeof bits);
      break;
    }
    case DType::F16:
      f16(0, 1);
      break;
    case DType::Q8_0:
    case DType::IQ4_NL:
      f16(0, 0.01f);
      break;
    case DType::Q4_0:
    case DType::Q5_0:
      f16(0, 0.1f);
      break;
    case DType::Q4_1:
    case DType::Q5_1:
      f16(0, 0.1f), f16(2, 1);
      break;
    case DType::Q2_K:
      f16(80, 0.05f), f16(82, 0.1f);
      break;
    case DType::Q3_K:
      f16(108, 0.02f);
      break;
    case DType::Q4_K:
    case DType::Q5_K:
      f16(0, 0.005f), f16(2, 0.02f);
      break;
    case DType::Q6_K:
      f16(208, 0.001f);
      break;
    case DType::IQ4_XS:
      f16(0, 0.001f);
      break;
    case DType::MXFP4:
      *block = static_cast<std::byte>(124 + random() % 4);
      break;
  }
}

}  // namespace skald::selftest
