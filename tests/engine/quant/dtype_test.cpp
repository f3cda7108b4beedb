#include <cstring>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"
#include "tests/catch.h"

using namespace skald;

TEST_CASE("formats have the sizes and ids that the file formats define") {
  struct Row {
    DType type;
    const char* name;
    int elems, bytes, gguf_id;
  };
  const Row expected[] = {
      {DType::F32, "F32", 1, 4, 0},
      {DType::F16, "F16", 1, 2, 1},
      {DType::BF16, "BF16", 1, 2, 30},
      {DType::Q8_0, "Q8_0", 32, 34, 8},
      {DType::Q4_0, "Q4_0", 32, 18, 2},
      {DType::Q4_1, "Q4_1", 32, 20, 3},
      {DType::Q5_0, "Q5_0", 32, 22, 6},
      {DType::Q5_1, "Q5_1", 32, 24, 7},
      {DType::Q2_K, "Q2_K", 256, 84, 10},
      {DType::Q3_K, "Q3_K", 256, 110, 11},
      {DType::Q4_K, "Q4_K", 256, 144, 12},
      {DType::Q5_K, "Q5_K", 256, 176, 13},
      {DType::Q6_K, "Q6_K", 256, 210, 14},
      {DType::IQ4_NL, "IQ4_NL", 32, 18, 20},
      {DType::IQ4_XS, "IQ4_XS", 256, 136, 23},
      {DType::MXFP4, "MXFP4", 32, 17, 39},
  };
  REQUIRE(all_dtypes().size() == std::size(expected));
  for (const Row& row : expected) {
    INFO(row.name);
    const DTypeInfo& format = info(row.type);
    CHECK(format.type == row.type);
    CHECK(format.name == row.name);
    CHECK(format.block_elems == row.elems);
    CHECK(format.block_bytes == row.bytes);
    CHECK(format.gguf_id == row.gguf_id);
    CHECK(dtype_from_gguf_id(static_cast<uint32_t>(row.gguf_id)) == row.type);
    CHECK(dtype_from_name(row.name) == row.type);
    CHECK(row_bytes(row.type, 3 * row.elems) == 3 * row.bytes);
  }
}

TEST_CASE("formats are found by their whole names in any case") {
  CHECK(dtype_from_name("q4_k") == DType::Q4_K);
  CHECK(dtype_from_name("Iq4_Xs") == DType::IQ4_XS);
  CHECK(!dtype_from_name("Q4"));
  CHECK(!dtype_from_name("Q4_K_M"));
  CHECK(!dtype_from_name(""));
}

TEST_CASE("safetensors has three of the formats") {
  CHECK(dtype_from_safetensors("F32") == DType::F32);
  CHECK(dtype_from_safetensors("F16") == DType::F16);
  CHECK(dtype_from_safetensors("BF16") == DType::BF16);
  CHECK(!dtype_from_safetensors("bf16"));
  CHECK(!dtype_from_safetensors(""));
  CHECK(!dtype_from_safetensors("F8_E4M3"));
}

TEST_CASE("unknown ids are not found") {
  for (uint32_t id : {4u, 5u, 9u, 16u, 31u, 38u, 43u, 0x80000000u, 0xffffffffu}) {
    CHECK(!dtype_from_gguf_id(id));
  }
}

TEST_CASE("a row is decoded block by block, also at an odd address") {
  for (const DTypeInfo& format : all_dtypes()) {
    INFO(format.name);
    const int blocks = 3;
    const int bytes = blocks * format.block_bytes;
    std::vector<std::byte> aligned(bytes), shifted(bytes + 1);
    for (int i = 0; i < bytes; ++i) aligned[i] = static_cast<std::byte>(i * 37 % 61);
    std::memcpy(shifted.data() + 1, aligned.data(), bytes);

    std::vector<float> one_by_one(blocks * format.block_elems);
    for (int b = 0; b < blocks; ++b) {
      format.decode_row(aligned.data() + b * format.block_bytes,
                        one_by_one.data() + b * format.block_elems, format.block_elems);
    }
    std::vector<float> at_once(one_by_one.size() + 1, 7.0f);
    format.decode_row(shifted.data() + 1, at_once.data(), blocks * format.block_elems);
    CHECK(std::memcmp(at_once.data(), one_by_one.data(), one_by_one.size() * 4) == 0);
    CHECK(at_once.back() == 7.0f);  // nothing is written past the row
  }
}
