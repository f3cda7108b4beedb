#include <cstring>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/golden.h"

using namespace skald;

TEST_CASE("formats have the sizes and type numbers that the gguf package has") {
  const nlohmann::json formats = test::read_json(test::data_dir() / "blocks" / "formats.json");
  CHECK(formats.size() == all_dtypes().size());
  for (const DTypeInfo& format : all_dtypes()) {
    INFO(format.name);
    const nlohmann::json& expected = formats.at(std::string(format.name));
    CHECK(&info(format.type) == &format);
    CHECK(format.block_elems == expected.at("weights").get<int>());
    CHECK(format.block_bytes == expected.at("bytes").get<int>());
    CHECK(format.gguf_id == expected.at("gguf").get<int>());
    if (format.gguf_id != kNoGgufId) {
      CHECK(dtype_from_gguf_id(static_cast<uint32_t>(format.gguf_id)) == format.type);
    }
    CHECK(dtype_from_name(format.name) == format.type);
    CHECK(row_bytes(format.type, 3 * format.block_elems) == 3 * format.block_bytes);
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
  for (uint32_t id : {4u, 5u, 9u, 15u, 31u, 38u, 43u, 0x80000000u, 0xffffffffu}) {
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
