// Which kernel the products of routed experts get, and the layout of rows in the order of places.
#include <set>

#include "cuda/kernels/experts/placed_rows.h"
#include "cuda/plan/kernel_table.h"
#include "tests/catch.h"

namespace skald::cuda {
namespace {

ExpertsShape gate(DType format, int64_t ffn_dim, int64_t dim) {
  ExpertsShape shape = {};
  shape.type = DType::BF16;
  shape.format = format;
  shape.outs = 2 * ffn_dim;
  shape.ins = dim;
  shape.out_stride = ffn_dim;
  shape.epilogue = Epilogue::Gated;
  return shape;
}

std::string_view kernel(const ExpertsShape& shape, int rows, int capability,
                        const ExpertsNeed& need = {}) {
  Gpu gpu;
  gpu.compute_capability = capability;
  return select_experts(shape, {rows, 8, 128}, gpu, need).name;
}

}  // namespace

TEST_CASE("experts with few places have a kernel of their own") {
  for (const DType format : {DType::BF16, DType::Q4_K, DType::FP8}) {
    const ExpertsShape shape = gate(format, 768, 2048);
    CHECK(kernel(shape, 16, 90) == "experts_few");
    CHECK(kernel(shape, 64, 90) == "experts_few");  // 4 places of an expert on average
    CHECK(kernel(shape, 65, 90) == "experts_many_sm90");
    CHECK(kernel(shape, 128, 90, {.in_place = true}) == "experts_few");
    CHECK(kernel(shape, 65, 80) == "experts_few");
    CHECK(kernel(shape, 128, 80) == "experts_few");
    CHECK(kernel(shape, 129, 80) == "experts_many");
    CHECK(kernel(shape, 3, 90, {.reproducible = true}) == "experts_many_sm90");
    CHECK(kernel(shape, 3, 80, {.reproducible = true}) == "experts_many");
  }
}

TEST_CASE("weight rows that are no whole groups get a kernel that stores them one by one") {
  CHECK(kernel(gate(DType::BF16, 768, 2048), 300, 90) == "experts_many_sm90");
  CHECK(kernel(gate(DType::BF16, 44, 2048), 300, 90) == "experts_many");
  CHECK(kernel(gate(DType::BF16, 44, 2048), 128, 90) == "experts_few");
  CHECK(kernel(gate(DType::BF16, 768, 60), 300, 90) == "experts_plain");
}

TEST_CASE("each unit of a placed row has 16 bytes of its own") {
  for (const int64_t cols : {32, 96, 256, 544}) {
    const PlacedLayout layout(21, cols);
    std::set<int64_t> seen;
    for (int64_t place = 0; place < 21; ++place) {
      for (int64_t unit = 0; unit < layout.blocks * 8; ++unit) {
        const int64_t at = layout.offset(place, unit);
        CHECK(at % 16 == 0);
        CHECK(at + 16 <= layout.sums);
        seen.insert(at);
      }
    }
    CHECK(std::ssize(seen) == 21 * layout.blocks * 8);
    CHECK(layout.sums_of(20, layout.sum_blocks - 1) + kPlacedSumBytes <= layout.scales);
    CHECK(layout.bytes(RowOrder::Placed) == layout.sums);
    CHECK(layout.bytes(RowOrder::PlacedHalves) == layout.scales + 24 * 4);
  }
}

}  // namespace skald::cuda
