// Private to the x86 tiers: tiles of the 32-value types with vpmaddubsw (AVX2, and AVX-512 without VNNI).
//
// Eight steps of vpmaddubsw + vpaddw cover a block, vpmaddwd with ones makes int32, one fma scales. 5-bit quants are
// centred (minus 16, through the activations' sums) so that 16 products fit int16. 8-bit values are split into two
// nibble planes of kLanes rows, because their products do not fit: twice the multiplies, the same kernel.
#pragma once
#include "matmul_panel_32.h"

namespace tessera {
namespace {

template <int T>
inline void sum_block(const Panel32& panel, const uint8_t* x, size_t stride, vi (&acc)[T][2]) {
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const vi w0 = load_i(panel.q[k][0]), w1 = load_i(panel.q[k][kLanes]);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const vi value = broadcast32(x + t * stride + 4 * k);
      acc[t][0] = add16(acc[t][0], products8(w0, value));
      acc[t][1] = add16(acc[t][1], products8(w1, value));
      TESSERA_KEEP(acc[t][0], acc[t][1]);
    }
  }
}

template <class Type, int T>
__attribute__((noinline)) void tile_32(const Panel32* panel, const Tile& tile) {
  const Record32 at(tile.cols);
  constexpr int kCentre = Type::kHasFifthBit ? 4 : Type::kCentre;
  constexpr bool kRestore = Type::kHasFifthBit && Type::kCentre == 0;  // the centre belongs to the value: add it back
  vf sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* x_sums = tile.packed + at.pair_sums + static_cast<size_t>(b) * 4;
    vi acc[T][2];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      acc[t][0] = zero_i();
      if constexpr (kCentre != 0) acc[t][0] = sub16(acc[t][0], left16(broadcast32(x_sums + t * at.stride), kCentre));
      acc[t][1] = acc[t][0];
    }
    sum_block<T>(*panel, tile.packed + static_cast<size_t>(b) * 32, at.stride, acc);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t)
      for (int h = 0; h < 2; ++h) {
        acc[t][h] = products16(acc[t][h], all16(1));
        if constexpr (kRestore)
          acc[t][h] = add32(acc[t][h], products16(broadcast32(x_sums + t * at.stride), all16(1 << kCentre)));
      }
    add_block<Type::kHasMin, T>(*panel, at, tile.packed, b, acc, sums);
  }
  for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
}

template <class Type>
struct Maddubs32 {
  using Panel = Panel32;
  static constexpr int kValues = 32, kBytes = Type::kBytes, kChunk = 256 / kLanes;
  static void unpack(const uint8_t* const* rows, size_t block, int half, Panel32& panel) {
    Type::unpack(rows, block, half * kLanes, panel);
  }
  template <int T>
  static void multiply(const Panel32* panel, const Tile& tile) {
    tile_32<Type, T>(panel, tile);
  }
};

// Two half panels: lanes of the first half are the low nibbles of kLanes rows, those of the second their high nibbles
// plus 8, which is taken off through the sums.
struct PanelBytes {
  Panel32 half[2];
};

template <int T>
__attribute__((noinline)) void tile_bytes(const PanelBytes* panel, int half, const Tile& tile, vf (&sums)[T][2]) {
  const Record32 at(tile.cols);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* x_scale = tile.packed + at.scales + static_cast<size_t>(b) * 4;
    const uint8_t* x_sums = tile.packed + at.pair_sums + static_cast<size_t>(b) * 4;
    vi acc[T][2];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      acc[t][0] = zero_i();
      acc[t][1] = sub16(zero_i(), left16(broadcast32(x_sums + t * at.stride), 3));
    }
    sum_block<T>(panel->half[half], tile.packed + static_cast<size_t>(b) * 32, at.stride, acc);
    const vf d = load_f(panel->half[half].d);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const vi product = add32(products16(acc[t][0], all16(1)), products16(acc[t][1], all16(16)));
      sums[t][half] = fma_f(to_float(product), mul_f(d, broadcastf(x_scale + t * at.stride)), sums[t][half]);
    }
  }
}

template <class Type>
struct MaddubsBytes {
  using Panel = PanelBytes;
  static constexpr int kValues = 32, kBytes = Type::kBytes, kChunk = 128 / kLanes;
  static void unpack(const uint8_t* const* rows, size_t block, int half, PanelBytes& panel) {
    Panel32& target = panel.half[half];
    store_f(target.d, load_halves(rows, block));
    vi v[8];
    Type::bytes(rows, block, v);
    for (int s = 0; s < 8; ++s) {
      store_i(target.q[s][0], bits(v[s], 0, 15));
      store_i(target.q[s][kLanes], xor_i(bits(v[s], 4, 15), all8(8)));
    }
  }
  template <int T>
  static void multiply(const PanelBytes* panel, const Tile& tile) {
    vf sums[T][2];
    for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
    for (int half = 0; half < 2; ++half) tile_bytes<T>(panel, half, tile, sums);
    for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
  }
};

}  // namespace
}  // namespace tessera
