#include "engine/program/weights.h"
#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"

using namespace skald;

namespace {

class SomeWeights : public WeightFile {
 public:
  SomeWeights() : WeightFile("some.gguf") {}
  void put(const std::string& name, int64_t rows, int64_t cols) {
    add({name,
         {rows, cols},
         {nullptr, DType::Q8_0, rows, cols, row_bytes(DType::Q8_0, cols)},
         "some.gguf"});
  }
};

}  // namespace

TEST_CASE("a WeightFile finds tensors by name and sums their sizes") {
  SomeWeights weights;
  weights.put("a", 2, 64);
  weights.put("b", 1, 32);
  REQUIRE(weights.tensors().size() == 2);
  CHECK(weights.tensors()[1].name == "b");
  REQUIRE(weights.find("a"));
  CHECK(weights.find("a")->view.rows == 2);
  CHECK(weights.find("c") == nullptr);
  CHECK(weights.bytes() == 5 * 34);
}

TEST_CASE("a tensor name that occurs twice is an error") {
  SomeWeights weights;
  weights.put("a", 1, 32);
  const std::string message = test::error_text([&] { weights.put("a", 1, 32); });
  CHECK(test::has(message, "some.gguf: tensor 'a' occurs twice"));
}
