// bitsandbytes. Four bits: weight holds the matrix's codes row after row, two in a byte, the first
// in the high half; quant_map gives the 16 numbers, absmax the scale of each run of `blocksize`
// codes, and quant_state the shape as JSON. Scales may be quantized themselves ("double
// quantization"). Eight bits: weight[rows, cols] and SCB[rows], the largest weight of each row.
#include <array>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/checkpoints/matrices.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kState = "weight.quant_state.bitsandbytes__";
constexpr int64_t kMostRows = int64_t{1} << 31, kMostBlock = 1 << 20;

struct State {
  int64_t rows, cols, block;
  int64_t scales_block = 0;  // of quantized scales
  float scales_offset = 0;
};

class TableRows final : public FloatRows {
 public:
  TableRows(const Part& codes, const std::array<float, 16>& table, std::vector<float> scales,
            const State& state)
      : codes_(codes.bytes), table_(table), scales_(std::move(scales)), state_(state) {}

  void read_row(int64_t row, std::span<float> out) const override {
    int64_t at = row * state_.cols;
    for (float& weight : out) {
      const auto byte = static_cast<uint8_t>(codes_[static_cast<size_t>(at / 2)]);
      const int code = at % 2 == 0 ? byte >> 4 : byte & 15;
      weight = table_[static_cast<size_t>(code)] * scales_[static_cast<size_t>(at / state_.block)];
      ++at;
    }
  }

 private:
  std::span<const std::byte> codes_;
  std::array<float, 16> table_;
  std::vector<float> scales_;
  State state_;
};

class RowScaledRows final : public FloatRows {
 public:
  RowScaledRows(const Part& codes, const Numbers& largest)
      : codes_(codes.bytes), largest_(largest) {}

  void read_row(int64_t row, std::span<float> out) const override {
    const std::byte* from = codes_.data() + row * std::ssize(out);
    const float largest = largest_.at(row);
    for (float& weight : out) {
      weight = static_cast<float>(static_cast<int8_t>(*from++)) * largest * (1.0F / 127);
    }
  }

 private:
  std::span<const std::byte> codes_;
  Numbers largest_;
};

State read_state(const Part& part, bool nested) {
  const std::string text(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  const HfConfig json =
      HfConfig::parse(text, concat(part.file, ": tensor '", printable(part.name), "'"));
  const std::vector<int64_t> shape = json.integers("shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > kMostRows ||
      shape[1] > kMostRows) {
    fail(Exit::Model, json.where(), ": 'shape' is not the two sizes of a matrix");
  }
  State state{shape[0], shape[1], json.integer("blocksize", 1, kMostBlock)};
  if (nested) {
    state.scales_block = json.integer("nested_blocksize", 1, kMostBlock);
    state.scales_offset = static_cast<float>(json.number("nested_offset"));
  }
  return state;
}

int64_t runs(int64_t count, int64_t each) { return (count + each - 1) / each; }

std::vector<float> read_scales(const Parts& parts, const State& state) {
  const int64_t count = runs(state.rows * state.cols, state.block);
  std::vector<float> scales;
  scales.reserve(static_cast<size_t>(count));
  if (state.scales_block == 0) {
    const Numbers absmax(parts.get("weight.absmax", {"F32"}, {count}));
    for (int64_t i = 0; i < count; ++i) scales.push_back(absmax.at(i));
    return scales;
  }
  const Part& codes = parts.get("weight.absmax", {"U8"}, {count});
  const Numbers table(parts.get("weight.nested_quant_map", {"F32"}, {256}));
  const Numbers absmax(
      parts.get("weight.nested_absmax", {"F32"}, {runs(count, state.scales_block)}));
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint8_t>(codes.bytes[static_cast<size_t>(i)]);
    scales.push_back(table.at(code) * absmax.at(i / state.scales_block) + state.scales_offset);
  }
  return scales;
}

}  // namespace

QuantizedMatrix table4_matrix(const Parts& parts, const QuantMethod& method) {
  const std::string nf4 = concat(kState, "nf4"), fp4 = concat(kState, "fp4");
  parts.refuse_others({"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax",
                       "weight.nested_quant_map", nf4, fp4});
  const Part& part = parts.get(parts.find(nf4) ? nf4 : fp4, {"U8"}, {kAny});
  const State state = read_state(part, parts.find("weight.nested_absmax") != nullptr);
  const Part& codes = parts.get("weight", {"U8"}, {kAny, 1});
  if (codes.shape[0] != runs(state.rows * state.cols, 2)) {
    refuse_part(codes, concat("the codes of [", state.rows, ", ", state.cols, "] weights, as '",
                              printable(part.name), "' says"));
  }
  const Numbers map(parts.get("weight.quant_map", {"F32"}, {16}));
  std::array<float, 16> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = map.at(static_cast<int64_t>(i));
  auto reader = std::make_unique<TableRows>(codes, table, read_scales(parts, state), state);
  return plain_rows(std::move(reader), state.rows, state.cols, method.plain);
}

QuantizedMatrix row_int8_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"weight", "SCB"});
  const Part& codes = parts.get("weight", {"I8"}, {kAny, kAny});
  const int64_t rows = codes.shape[0], cols = codes.shape[1];
  const Numbers largest(parts.get("SCB", {"F32"}, {rows}));
  return plain_rows(std::make_unique<RowScaledRows>(codes, largest), rows, cols, method.plain);
}

}  // namespace skald
