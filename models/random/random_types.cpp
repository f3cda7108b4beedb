#include "models/random/random_types.h"

#include <cctype>
#include <utility>

namespace skald {
namespace {

// Formats that quantizers mix. Every other format of dtype.cpp is a type of its own.
const RandomType kMixes[] = {
    {"q2_k", DType::Q2_K, DType::Q3_K, DType::Q6_K},
    {"q3_k", DType::Q3_K, DType::Q5_K, DType::Q6_K},
    {"q4_k_m", DType::Q4_K, DType::Q6_K, DType::Q6_K},
    {"q5_k_m", DType::Q5_K, DType::Q6_K, DType::Q6_K},
    {"mxfp4", DType::MXFP4, DType::MXFP4, DType::Q8_0},
    {"fp8", DType::FP8, DType::FP8, DType::BF16},
    {"nvfp4", DType::NVFP4, DType::NVFP4, DType::BF16},
};

RandomType type_of(const DTypeInfo& format) {
  for (const RandomType& mix : kMixes) {
    if (mix.most == format.type) return mix;
  }
  std::string name(format.name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool precise = format.block_bytes >= format.block_elems;  // 8 bits or more a weight
  return {std::move(name), format.type, format.type, precise ? format.type : DType::Q6_K};
}

}  // namespace

const std::vector<RandomType>& all_random_types() {
  static const std::vector<RandomType> kAll = [] {
    std::vector<RandomType> all;
    all.reserve(all_dtypes().size() + 1);
    for (const DTypeInfo& format : all_dtypes()) all.push_back(type_of(format));
    // The types in which gpt-oss is published.
    all.push_back({"mxfp4_bf16", DType::BF16, DType::BF16, DType::BF16, DType::MXFP4});
    return all;
  }();
  return kAll;
}

}  // namespace skald
