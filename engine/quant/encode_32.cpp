// Encoders of the formats with blocks of 32 weights.
#include "engine/quant/code_bytes.h"
#include "engine/quant/encode.h"
#include "engine/quant/grids.h"
#include "engine/quant/host_fit.h"

namespace skald {
namespace {

constexpr int kBlockElems = 32;

// The stored code of weight i is q[i] + offset.
struct Codes {
  float q[kBlockElems];
  int offset;
  int operator()(int i) const { return static_cast<int>(q[i]) + offset; }
};

void put_nibbles(const Codes& codes, uint8_t* out) {
  for (int i = 0; i < kBlockElems / 2; ++i) out[i] = nibble_byte<16>(codes, i);
}

void put_fifth_bits(const Codes& codes, uint8_t* out) {
  for (int i = 0; i < kBlockElems / 8; ++i) out[i] = fifth_bits<1>(codes, 8 * i);
}

// w = scale * q, with q from grid.lowest to grid.highest.
Codes encode_signed(HostWeights w, const ScaleGrid& grid, uint16_t& scale) {
  Codes codes;
  codes.offset = static_cast<int>(-grid.lowest);
  scale = f32_to_f16(fit_scale(w, kBlockElems, grid));
  round_to_grid(w.w, kBlockElems, {f16_to_f32(scale), 0}, grid.lowest, grid.highest, codes.q);
  return codes;
}

// w = scale * q + min, with q from 0 to grid.highest.
Codes encode_range(HostWeights w, const RangeGrid& grid, uint16_t& scale, uint16_t& min) {
  Codes codes;
  codes.offset = 0;
  const RangeFit fit = fit_range(w, kBlockElems, grid);
  scale = f32_to_f16(fit.scale);
  min = f32_to_f16(fit.min);
  round_to_grid(w.w, kBlockElems, {f16_to_f32(scale), f16_to_f32(min)}, 0, grid.highest, codes.q);
  return codes;
}

}  // namespace

void encode(HostWeights w, BlockQ8_0& out) {
  const Codes codes = encode_signed(w, grid_of<BlockQ8_0>(), out.scale);
  for (int i = 0; i < kBlockElems; ++i) out.q[i] = static_cast<int8_t>(codes.q[i]);
}

void encode(HostWeights w, BlockQ4_0& out) {
  put_nibbles(encode_signed(w, grid_of<BlockQ4_0>(), out.scale), out.q);
}

void encode(HostWeights w, BlockQ5_0& out) {
  const Codes codes = encode_signed(w, grid_of<BlockQ5_0>(), out.scale);
  put_nibbles(codes, out.q);
  put_fifth_bits(codes, out.high);
}

void encode(HostWeights w, BlockQ4_1& out) {
  put_nibbles(encode_range(w, grid_of<BlockQ4_1>(), out.scale, out.min), out.q);
}

void encode(HostWeights w, BlockQ5_1& out) {
  const Codes codes = encode_range(w, grid_of<BlockQ5_1>(), out.scale, out.min);
  put_nibbles(codes, out.q);
  put_fifth_bits(codes, out.high);
}

}  // namespace skald
