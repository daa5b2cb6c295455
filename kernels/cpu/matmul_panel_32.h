// Private to the x86 tiers: how blocks of 32 values become panels, kLanes rows at a time.
//
// Eight steps of four bytes per row in natural order. Types of 8-bit values have a layout of their own in each tier.
#pragma once
#include "matmul_codebook.h"
#include "matmul_panels.h"

namespace tessera {
namespace {

struct alignas(64) Panel32 {
  uint8_t q[8][kPanelRows][4];
  float d[kPanelRows], m[kPanelRows];
};

// Bits 4s .. 4s + 3 of each lane to bit 4 of its four bytes.
inline vi fifth_bits(vi high, int s) {
  const vi apart = mul32(and_i(right32(high, 4 * s), all32(15)), all32(0x00204081));
  return left32(and_i(apart, all32(0x01010101)), 4);
}

template <class Block, bool kMinField, bool kFifthBit, int kOffset>
struct Nibbles {
  static constexpr int kBytes = sizeof(Block);
  static constexpr bool kHasMin = kMinField, kHasFifthBit = kFifthBit;
  static constexpr int kCentre = kOffset == 16 ? 4 : kOffset == 8 ? 3 : 0;  // log2 of what is subtracted from a quant
  static void unpack(const uint8_t* const* rows, size_t block, int lane, Panel32& panel) {
    constexpr int kQs = kBytes - 16;
    if constexpr (kMinField) {
      const vi both = load_dwords(rows, block);
      store_f(panel.d + lane, halves_low(both));
      store_f(panel.m + lane, halves_high(both));
    } else {
      store_f(panel.d + lane, load_halves(rows, block));
    }
    vi v[4], high = zero_i();
    load_x4(rows, block + kQs, v);
    if constexpr (kFifthBit) high = load_dwords(rows, block + kQs - 4);
    for (int s = 0; s < 8; ++s) {
      vi q = bits(v[s % 4], s / 4 * 4, 15);
      if constexpr (kFifthBit) q = or_i(q, fifth_bits(high, s));
      store_i(panel.q[s][lane], q);
    }
  }
};

using Q4_0 = Nibbles<BlockQ4_0, false, false, 8>;
using Q4_1 = Nibbles<BlockQ4_1, true, false, 0>;
using Q5_0 = Nibbles<BlockQ5_0, false, true, 16>;
using Q5_1 = Nibbles<BlockQ5_1, true, true, 0>;

// The small values of MXFP4 plus 16, which a centre takes off again.
struct MXFP4 {
  static constexpr int kBytes = sizeof(BlockMXFP4), kCentre = 4;
  static constexpr bool kHasMin = false, kHasFifthBit = false;
  static void unpack(const uint8_t* const* rows, size_t block, int lane, Panel32& panel) {
    for (int r = 0; r < kLanes; ++r) panel.d[lane + r] = power_of_two(rows[r][block]);
    vi v[4];
    load_x4(rows, block + 1, v);
    const __m128i table = _mm_add_epi8(load_codebook(kMxfp4Values), _mm_set1_epi8(16));
    for (int s = 0; s < 8; ++s) store_i(panel.q[s][lane], look_up8(table, bits(v[s % 4], s / 4 * 4, 15)));
  }
};

// Types of 8-bit values with a half as their scale: bytes() yields the eight steps.
struct Q8_0 {
  static constexpr int kBytes = sizeof(BlockQ8_0);
  static void bytes(const uint8_t* const* rows, size_t block, vi* out) { load_x8(rows, block + 2, out); }
};
struct IQ4_NL {
  static constexpr int kBytes = sizeof(BlockIQ4_NL);
  static void bytes(const uint8_t* const* rows, size_t block, vi* out) {
    vi v[4];
    load_x4(rows, block + 2, v);
    for (int s = 0; s < 8; ++s) out[s] = look_up8(load_codebook(kIq4Values), bits(v[s % 4], s / 4 * 4, 15));
  }
};

// Adds one block: the exact int32 products, scaled; mins through the activations' scaled sums.
template <bool kHasMin, int T>
inline void add_block(const Panel32& panel, const Record32& at, const uint8_t* packed, int block,
                      const vi (&products)[T][2], vf (&sums)[T][2]) {
  const uint8_t* x_scale = packed + at.scales + static_cast<size_t>(block) * 4;
  const uint8_t* x_sum = packed + at.sums + static_cast<size_t>(block) * 4;
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) {
    const vf scale = broadcastf(x_scale + t * at.stride);
    for (int h = 0; h < 2; ++h) {
      sums[t][h] = fma_f(to_float(products[t][h]), mul_f(load_f(panel.d + kLanes * h), scale), sums[t][h]);
      if constexpr (kHasMin)
        sums[t][h] = fma_f(load_f(panel.m + kLanes * h), broadcastf(x_sum + t * at.stride), sums[t][h]);
    }
  }
}

}  // namespace
}  // namespace tessera
