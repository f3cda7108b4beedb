// bitsandbytes. Four bits: weight holds the matrix's codes row after row, two in a byte, the first
// in the high half; quant_map gives the 16 numbers, absmax the scale of each run of `blocksize`
// codes, and quant_state the shape as JSON. Scales may be quantized themselves ("double
// quantization"). Eight bits: weight[rows, cols] and SCB[rows], the largest weight of each row.
#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/checkpoints/ceil_div.h"
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

// The scale of each run of codes, which may be quantized itself.
class RunScales {
 public:
  RunScales(const Parts& parts, const State& state) {
    const int64_t count = ceil_div(state.rows * state.cols, state.block);
    if (state.scales_block == 0) {
      scales_ = Numbers(parts.get("weight.absmax", {"F32"}, {count}));
      return;
    }
    codes_ = parts.get("weight.absmax", {"U8"}, {count}).bytes;
    const Numbers table(parts.get("weight.nested_quant_map", {"F32"}, {256}));
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = table.at(static_cast<int64_t>(i));
    const int64_t nested = ceil_div(count, state.scales_block);
    scales_ = Numbers(parts.get("weight.nested_absmax", {"F32"}, {nested}));
    block_ = state.scales_block;
    offset_ = state.scales_offset;
  }

  float at(int64_t run) const {
    if (codes_.empty()) return scales_.at(run);
    const auto code = static_cast<uint8_t>(codes_[static_cast<size_t>(run)]);
    return table_[code] * scales_.at(run / block_) + offset_;
  }

 private:
  Numbers scales_;
  std::span<const std::byte> codes_;  // empty: scales_ are the runs' own
  std::array<float, 256> table_ = {};
  int64_t block_ = 1;
  float offset_ = 0;
};

class TableRows final : public FloatRows {
 public:
  TableRows(const Part& codes, const Numbers& table, const RunScales& scales, const State& state)
      : codes_(codes.bytes), scales_(scales), state_(state) {
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = table.at(static_cast<int64_t>(i));
  }

  void read_row(int64_t row, std::span<float> out) const override {
    int64_t at = row * state_.cols, end_of_run = 0;
    float scale = 0;
    for (float& weight : out) {
      if (at >= end_of_run) {
        const int64_t run = at / state_.block;
        scale = scales_.at(run);
        end_of_run = (run + 1) * state_.block;
      }
      const auto byte = static_cast<uint8_t>(codes_[static_cast<size_t>(at / 2)]);
      weight = table_[static_cast<size_t>(at % 2 == 0 ? byte >> 4 : byte & 15)] * scale;
      ++at;
    }
  }

 private:
  std::span<const std::byte> codes_;
  std::array<float, 16> table_ = {};
  RunScales scales_;
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

}  // namespace

QuantizedMatrix table4_matrix(const Parts& parts) {
  const std::string nf4 = concat(kState, "nf4"), fp4 = concat(kState, "fp4");
  parts.refuse_others({"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax",
                       "weight.nested_quant_map", nf4, fp4});
  const Part& part = parts.get(parts.find(nf4) ? nf4 : fp4, {"U8"}, {kAny});
  const State state = read_state(part, parts.find("weight.nested_absmax") != nullptr);
  const Part& codes = parts.get("weight", {"U8"}, {kAny, 1});
  if (codes.shape[0] != ceil_div(state.rows * state.cols, 2)) {
    refuse_part(codes, concat("the codes of [", state.rows, ", ", state.cols, "] weights, as '",
                              printable(part.name), "' says"));
  }
  const Numbers table(parts.get("weight.quant_map", {"F32"}, {16}));
  return {.rows = state.rows,
          .cols = state.cols,
          .floats = std::make_unique<TableRows>(codes, table, RunScales(parts, state), state)};
}

QuantizedMatrix row_int8_matrix(const Parts& parts) {
  parts.refuse_others({"weight", "SCB", "weight_format"});
  const Part& codes = parts.get("weight", {"I8"}, {kAny, kAny});
  // Old versions wrote the bytes in the order of a GPU's tiles, and the tile's number beside them.
  const Part* format = parts.find("weight_format");
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (format && !std::all_of(format->bytes.begin(), format->bytes.end(), zero)) {
    refuse_part(*format, "the value 0: rows in their order; save the model with bitsandbytes 0.45");
  }
  const int64_t rows = codes.shape[0], cols = codes.shape[1];
  const Numbers largest(parts.get("SCB", {"F32"}, {rows}));
  return {.rows = rows, .cols = cols, .floats = std::make_unique<RowScaledRows>(codes, largest)};
}

}  // namespace skald
