// Private to the AVX-512 VNNI tier: tiles of codebook types whose quants are 8-bit.
//
// The quants plus 128 are unsigned; the 128 comes off through the starting value of each sum. A sub-block's sum needs
// more than 16 bits, so that its scale is applied by a 32-bit multiplication.
#pragma once
#include "matmul_dpbusd.h"
#include "matmul_panel_codebook.h"

namespace tessera {
namespace {

template <class Row, int T>
__attribute__((noinline)) void tile_dot_wide(const PanelK* panel, const Tile& tile) {
  const Record256 at(tile.cols);
  const size_t stride = at.stride_with_negative_sums;
  constexpr bool kLong = Row::kSubBlock == 32;
  constexpr int kSteps = kLong ? 8 : 4, kParts = 8 / kSteps;  // per half of a group
  vf sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* x = tile.packed + static_cast<size_t>(b) * 256;
    const uint8_t* negative = tile.packed + at.negative_sums + static_cast<size_t>(b) * 64;
    vi scaled[T][2];
    for (int t = 0; t < T; ++t) scaled[t][0] = scaled[t][1] = zero_i();
#pragma GCC unroll 1
    for (int sub = 0; sub < 8 * kParts; ++sub) {  // A's parts of a group, then B's
      const int g = sub / (2 * kParts), half = sub / kParts % 2, part = sub % kParts;
      const int step = 16 * g + 8 * half + kSteps * part;
      vi acc[T][2];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const uint8_t* at_sums = negative + t * stride + 16 * g + 4 * half;  // A0, B0, A1, B1
        vi start = broadcast32(at_sums + 8 * part);
        if constexpr (kLong) start = add32(start, broadcast32(at_sums + 8));
        acc[t][0] = acc[t][1] = left32(start, 7);
      }
      dot_steps<T, kSteps>(panel->q[step][0], x + 4 * step, stride, acc);
      const int16_t (*pairs)[2] = panel->scales[2 * g + part];
      for (int h = 0; h < 2; ++h) {
        const vi scale = products16(load_i(pairs[kLanes * h]), all32(half ? 1 << 16 : 1));  // one half of each pair
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) scaled[t][h] = add32(scaled[t][h], mul32(acc[t][h], scale));
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const uint8_t* x_scale = tile.packed + at.scales + static_cast<size_t>(b) * 4 + t * stride;
      for (int h = 0; h < 2; ++h) {
        const vf value = mul_f(to_float(scaled[t][h]), load_f(panel->d + kLanes * h));
        sums[t][h] = fma_f(value, broadcastf(x_scale), sums[t][h]);
      }
    }
  }
  for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
}

template <class Row>
struct DotWide {
  using Panel = PanelK;
  static constexpr int kValues = 256, kBytes = Row::kBytes, kChunk = 2;
  static void unpack(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    const int lane = half * kLanes;
    const vi sign = all8(0x80);
    vi scales[8];
    decode_rows<Row>(rows, block, panel.d + lane, scales, [&](int g, int d, vi a, vi b) {
      NaturalOrder::emit(panel, lane, g, d, xor_i(a, sign), xor_i(b, sign));
    });
    for (int j = 0; j < 8; ++j) store_i(panel.scales[j][lane], scales[j]);
  }
  template <int T>
  static void multiply(const PanelK* panel, const Tile& tile) {
    tile_dot_wide<Row, T>(panel, tile);
  }
};

}  // namespace
}  // namespace tessera
