// The formats with 32 weights to a block and one scale.
#include "engine/quant/encode.h"
#include "engine/quant/fit.h"

namespace skald {
namespace {

constexpr int kElems = 32;

// A scale or minimum as the block will hold it.
float as_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

// q's low four bits: weights 0-15 in the low nibbles, 16-31 in the high ones.
void put_nibbles(const float* q, int offset, uint8_t* out) {
  for (int i = 0; i < kElems / 2; ++i) {
    const int low = static_cast<int>(q[i]) + offset;
    const int high = static_cast<int>(q[i + kElems / 2]) + offset;
    out[i] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
  }
}

// q's fifth bit.
void put_fifth_bits(const float* q, int offset, uint8_t* out) {
  for (int byte = 0; byte < 4; ++byte) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) {
      bits |= ((static_cast<int>(q[byte * 8 + i]) + offset) >> 4 & 1) << i;
    }
    out[byte] = static_cast<uint8_t>(bits);
  }
}

// w = scale * q with q from -half to half - 1.
void encode_signed(const float* w, const ScaleGrid& grid, uint16_t& scale, float* q) {
  scale = f32_to_f16(fit_scale(w, kElems, grid));
  round_to_grid(w, kElems, {f16_to_f32(scale), 0}, grid.lowest, grid.highest, q);
}

// w = scale * q + min with q from 0 on.
void encode_range(const float* w, const RangeGrid& grid, uint16_t& scale, uint16_t& min, float* q) {
  const RangeFit fit = fit_range(w, kElems, grid);
  scale = f32_to_f16(fit.scale);
  min = f32_to_f16(fit.min);
  round_to_grid(w, kElems, {as_f16(fit.scale), as_f16(fit.min)}, 0, grid.highest, q);
}

}  // namespace

void encode(const float* w, BlockQ8_0& out) {
  constexpr ScaleGrid kGrid = {-127, 127, 0.2f, 0.2f, 3};
  float q[kElems];
  encode_signed(w, kGrid, out.scale, q);
  for (int i = 0; i < kElems; ++i) out.q[i] = static_cast<int8_t>(q[i]);
}

void encode(const float* w, BlockQ4_0& out) {
  constexpr ScaleGrid kGrid = {-8, 7, 1.2f, 0.2f, 16};
  float q[kElems];
  encode_signed(w, kGrid, out.scale, q);
  put_nibbles(q, 8, out.q);
}

void encode(const float* w, BlockQ5_0& out) {
  constexpr ScaleGrid kGrid = {-16, 15, 1.2f, 0.2f, 14};
  float q[kElems];
  encode_signed(w, kGrid, out.scale, q);
  put_nibbles(q, 16, out.q);
  put_fifth_bits(q, 16, out.high);
}

void encode(const float* w, BlockQ4_1& out) {
  constexpr RangeGrid kGrid = {15, 1.2f, 0.2f, 16, false};
  float q[kElems];
  encode_range(w, kGrid, out.scale, out.min, q);
  put_nibbles(q, 0, out.q);
}

void encode(const float* w, BlockQ5_1& out) {
  constexpr RangeGrid kGrid = {31, 1.2f, 0.2f, 14, false};
  float q[kElems];
  encode_range(w, kGrid, out.scale, out.min, q);
  put_nibbles(q, 0, out.q);
  put_fifth_bits(q, 0, out.high);
}

}  // namespace skald
