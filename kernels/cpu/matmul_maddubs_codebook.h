// Private to the x86 tiers: tiles of codebook types with vpmaddubsw (AVX2, and AVX-512 without VNNI).
//
// As Q8_0 among the 32-value types: 8-bit quants are split into two nibble planes of kLanes rows, the upper one signed
// through the activations' sums. 32 products of a nibble fit int16 (matmul_maddubs_k.h), and one vpmaddwd per plane
// applies the scales, sixteen times larger for the upper plane.
#pragma once
#include "matmul_maddubs_k.h"
#include "matmul_panel_codebook.h"

namespace tessera {
namespace {

struct PanelWide {
  PanelK half[2];  // lanes of the first half: low nibbles of kLanes rows; of the second: their high nibbles plus 8
};

template <class Row, int T>
__attribute__((noinline)) void tile_wide(const PanelWide* panel, int half, const Tile& tile, vf (&sums)[T][2]) {
  const Record256 at(tile.cols);
  const size_t stride = at.stride;
  constexpr bool kLong = Row::kSubBlock == 32;
  constexpr int kSteps = kLong ? 16 : 8, kParts = 64 / kSteps;
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const PanelK& planes = panel->half[half];
    const uint8_t* x = tile.packed + static_cast<size_t>(b) * 256;
    const uint8_t* x_sums = kLong ? tile.packed + at.sums32 + static_cast<size_t>(b) * 16
                                  : tile.packed + at.sums16 + static_cast<size_t>(b) * 32;
    vi scaled[T];
    for (int t = 0; t < T; ++t) scaled[t] = zero_i();
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
      vi acc[T][2];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        acc[t][0] = zero_i();
        acc[t][1] = sub16(zero_i(), left16(broadcast32(x_sums + t * stride + 4 * part), 3));
      }
      sum_steps<T, kSteps>(planes.q[kSteps * part][0], x + 4 * kSteps * part, stride, acc);
      const int16_t (*scale)[2] = planes.scales[kLong ? 2 * part : part];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        for (int h = 0; h < 2; ++h) scaled[t] = AddProducts16::add(scaled[t], acc[t][h], load_i(scale[kLanes * h]));
    }
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const uint8_t* x_scale = tile.packed + at.scales + static_cast<size_t>(b) * 4 + t * stride;
      const vf value = mul_f(to_float(scaled[t]), load_f(planes.d));
      sums[t][half] = fma_f(value, broadcastf(x_scale), sums[t][half]);
    }
  }
}

template <class Row>
struct MaddubsWide {
  using Panel = PanelWide;
  static constexpr int kValues = 256, kBytes = Row::kBytes, kChunk = 16 / kLanes;
  static void unpack(const uint8_t* const* rows, size_t block, int half, PanelWide& panel) {
    PanelK& planes = panel.half[half];
    vi scales[8];
    decode_rows<Row>(rows, block, planes.d, scales, [&](int g, int d, vi a, vi b) {
      PairOrder::emit(planes, 0, g, d, bits(a, 0, 15), bits(b, 0, 15));
      PairOrder::emit(planes, kLanes, g, d, xor_i(bits(a, 4, 15), all8(8)), xor_i(bits(b, 4, 15), all8(8)));
    });
    for (int j = 0; j < 8; ++j) {
      store_i(planes.scales[j][0], scales[j]);
      store_i(planes.scales[j][kLanes], left16(scales[j], 4));
    }
  }
  template <int T>
  static void multiply(const PanelWide* panel, const Tile& tile) {
    vf sums[T][2];
    for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
    for (int half = 0; half < 2; ++half) tile_wide<Row, T>(panel, half, tile, sums);
    for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
  }
};

}  // namespace
}  // namespace tessera
