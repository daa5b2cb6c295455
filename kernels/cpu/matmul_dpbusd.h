// Private to the AVX-512 VNNI tier: tiles with vpdpbusd, which multiplies unsigned quants with signed activations and
// adds four products to each int32 lane; tokens are dword broadcasts from memory.
//
// K types: the sums of sub-blocks A and B share a register. B is summed first and moved to the upper 16 bits, A is
// added on top of 0x8000 so that it cannot borrow, xor 0x8000 leaves the int16 pair (A, B), and one vpdpwssd applies
// both scales. Exact while |A|, |B| <= 32767, which the activation packer guarantees (sum |q| <= 1023 per 16 values).
// Multiplier budget per lane and 256 values (Q4_K): 64 vpdpbusd + 4 scales + 4 mins + 3 float = 75, so 85 % of peak at
// best. 32-value types: 8 vpdpbusd + 2 to 4 float per block. A centre (and the 128 that makes 8-bit values unsigned) is
// the starting value of the sum.
#pragma once
#include "matmul_panel_32.h"
#include "matmul_panel_k.h"

namespace tessera {
namespace {

inline vi add_dot8(vi sum, vi u, vi s) { return _mm512_dpbusd_epi32(sum, u, s); }
struct AddDot16 {
  static vi add(vi sum, vi a, vi b) { return _mm512_dpwssd_epi32(sum, a, b); }
};

template <int T, int kSteps>
inline void dot_steps(const uint8_t* q, const uint8_t* x, size_t stride, vi (&acc)[T][2]) {
#pragma GCC unroll 8
  for (int k = 0; k < kSteps; ++k) {
    const vi w0 = load_i(q + 4 * kPanelRows * k), w1 = load_i(q + 4 * kPanelRows * k + 4 * kLanes);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const vi value = broadcast32(x + t * stride + 4 * k);
      acc[t][0] = add_dot8(acc[t][0], w0, value);
      acc[t][1] = add_dot8(acc[t][1], w1, value);
    }
  }
}

template <class Type, int T>
__attribute__((noinline)) void tile_dot_k(const PanelK* panel, const Tile& tile) {
  const Record256 at(tile.cols);
  const size_t stride = at.stride_with_negative_sums;
  constexpr int kSteps = Type::kShortSums ? 4 : 8, kParts = 32 / kSteps;  // per part: kSteps of A and of B
  constexpr int kPartsPerScale = Type::kSubBlock == 16 || !Type::kShortSums ? 1 : 2;
  const vi bias = all32(0x8000);
  vf sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* x = tile.packed + static_cast<size_t>(b) * 256;
    const uint8_t* negative = tile.packed + at.negative_sums + static_cast<size_t>(b) * 64;
    vi scaled[T][2];
    for (int t = 0; t < T; ++t) scaled[t][0] = scaled[t][1] = zero_i();
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
      const int a = part * kSteps + part * kSteps / 8 * 8;  // first step of A; B follows eight steps later
      vi acc[T][2];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        acc[t][0] = zero_i();
        if constexpr (Type::kCentre != 0)
          acc[t][0] = left32(broadcast32(negative + t * stride + 8 * part + 4), Type::kCentre);
        acc[t][1] = acc[t][0];
      }
      dot_steps<T, kSteps>(panel->q[a + 8][0], x + 4 * (a + 8), stride, acc);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        vi start = bias;
        if constexpr (Type::kCentre != 0)
          start = add32(start, left32(broadcast32(negative + t * stride + 8 * part), Type::kCentre));
        for (int h = 0; h < 2; ++h) acc[t][h] = add32(left32(acc[t][h], 16), start);
      }
      dot_steps<T, kSteps>(panel->q[a][0], x + 4 * a, stride, acc);
      const int16_t (*scale)[2] = panel->scales[part / kPartsPerScale];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        for (int h = 0; h < 2; ++h)
          scaled[t][h] = AddDot16::add(scaled[t][h], xor_i(acc[t][h], bias), load_i(scale[kLanes * h]));
    }
    add_block<Type, AddDot16, T>(*panel, at, stride, tile.packed, b, scaled, sums);
  }
  for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
}

template <class Type>
struct DotK {
  using Panel = PanelK;
  static constexpr int kValues = 256, kBytes = Type::kBytes, kChunk = 2;
  static void unpack(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    Type::template unpack<NaturalOrder>(rows, block, half * kLanes, panel);
  }
  template <int T>
  static void multiply(const PanelK* panel, const Tile& tile) {
    tile_dot_k<Type, T>(panel, tile);
  }
};

template <int kCentre, bool kHasMin, int T>
__attribute__((noinline)) void tile_dot_32(const Panel32* panel, const Tile& tile) {
  const Record32 at(tile.cols);
  vf sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
  for (int b = tile.first_block; b < tile.first_block + tile.blocks; ++b, ++panel) {
    const uint8_t* negative = tile.packed + at.negative_sums + static_cast<size_t>(b) * 4;
    vi acc[T][2];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      acc[t][0] = zero_i();
      if constexpr (kCentre != 0) acc[t][0] = left32(broadcast32(negative + t * at.stride), kCentre);
      acc[t][1] = acc[t][0];
    }
    dot_steps<T, 8>(panel->q[0][0], tile.packed + static_cast<size_t>(b) * 32, at.stride, acc);
    add_block<kHasMin, T>(*panel, at, tile.packed, b, acc, sums);
  }
  for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
}

template <class Type>
struct DotBytes {  // 8-bit values plus 128
  static constexpr int kBytes = Type::kBytes, kCentre = 7;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* const* rows, size_t block, int lane, Panel32& panel) {
    store_f(panel.d + lane, load_halves(rows, block));
    vi v[8];
    Type::bytes(rows, block, v);
    for (int s = 0; s < 8; ++s) store_i(panel.q[s][lane], xor_i(v[s], all8(0x80)));
  }
};

template <class Type>
struct Dot32 {
  using Panel = Panel32;
  static constexpr int kValues = 32, kBytes = Type::kBytes, kChunk = 16;
  static void unpack(const uint8_t* const* rows, size_t block, int half, Panel32& panel) {
    Type::unpack(rows, block, half * kLanes, panel);
  }
  template <int T>
  static void multiply(const Panel32* panel, const Tile& tile) {
    tile_dot_32<Type::kCentre, Type::kHasMin, T>(panel, tile);
  }
};

}  // namespace
}  // namespace tessera
