// Private to the x86 tiers: tiles of the K types with vpmaddubsw (AVX2, and AVX-512 without VNNI).
//
// vpmaddubsw multiplies unsigned quants with signed activations and sums neighbours in int16; the activation packer
// bounds sum |q| over 16 values by 1023, so that these sums stay exact over 32 values of a 4-bit type, over 16 of a
// 5-bit type, and over 16 of a centred 6-bit type (|w| <= 32). One vpmaddwd then applies the scales of two sub-blocks.
// Budget per lane and 64 values (Q4_K): 16 multiplies + 15 adds + 1 + 1 for the scales; mins and floats per 256: 11.
#pragma once
#include "matmul_panel_k.h"

namespace tessera {
namespace {

// kSteps dword steps of the int16 sums, for T tokens and both halves of the panel.
template <int T, int kSteps>
inline void sum_steps(const uint8_t* q, const uint8_t* x, size_t stride, vi (&acc)[T][2]) {
#pragma GCC unroll 16
  for (int k = 0; k < kSteps; ++k) {
    const vi w0 = load_i(q + 4 * kPanelRows * k), w1 = load_i(q + 4 * kPanelRows * k + 4 * kLanes);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const vi value = broadcast32(x + t * stride + 4 * k);
      acc[t][0] = add16(acc[t][0], products8(w0, value));
      acc[t][1] = add16(acc[t][1], products8(w1, value));
      TESSERA_KEEP(acc[t][0], acc[t][1]);
    }
  }
}

struct AddProducts16 {
  static vi add(vi sum, vi a, vi b) { return add32(sum, products16(a, b)); }
};

template <class Type, int T>
__attribute__((noinline)) void tile_k(const PanelK* panel, const Tile& tile) {
  const Record256 at(tile.cols);
  const size_t stride = at.stride;
  constexpr int kSteps = Type::kShortSums ? 8 : 16, kParts = 64 / kSteps;
  constexpr int kPartsPerScale = Type::kSubBlock == 16 || !Type::kShortSums ? 1 : 2;
  vf sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* x = tile.packed + static_cast<size_t>(b) * 256;
    const uint8_t* x_sums = tile.packed + at.sums16 + static_cast<size_t>(b) * 32;
    vi scaled[T][2];
    for (int t = 0; t < T; ++t) scaled[t][0] = scaled[t][1] = zero_i();
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
      vi acc[T][2];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        acc[t][0] = zero_i();
        if constexpr (Type::kCentre != 0)
          acc[t][0] = sub16(acc[t][0], left16(broadcast32(x_sums + t * stride + 4 * part), Type::kCentre));
        acc[t][1] = acc[t][0];
      }
      sum_steps<T, kSteps>(panel->q[kSteps * part][0], x + 4 * kSteps * part, stride, acc);
      const int16_t (*scale)[2] = panel->scales[part / kPartsPerScale];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        for (int h = 0; h < 2; ++h)
          scaled[t][h] = AddProducts16::add(scaled[t][h], acc[t][h], load_i(scale[kLanes * h]));
    }
    add_block<Type, AddProducts16, T>(*panel, at, stride, tile.packed, b, scaled, sums);
  }
  for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
}

template <class Type>
struct MaddubsK {
  using Panel = PanelK;
  static constexpr int kValues = 256, kBytes = Type::kBytes, kChunk = 32 / kLanes;
  static void unpack(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    Type::template unpack<PairOrder>(rows, block, half * kLanes, panel);
  }
  template <int T>
  static void multiply(const PanelK* panel, const Tile& tile) {
    tile_k<Type, T>(panel, tile);
  }
};

}  // namespace
}  // namespace tessera
