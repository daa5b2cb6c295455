// Private to the x86 tiers: how blocks of the K types become panels, kLanes rows at a time.
//
// A block has four groups of 64 values, A the first 32 of a group and B the second. A panel holds 64 steps of four
// bytes per row, 16 per group, ordered by the tier (see Record256):
//  - pairs (vpmaddubsw): step 2d + e of a group is A[4d + 2e], A[4d + 2e + 1], B[4d + 2e], B[4d + 2e + 1];
//  - natural (vpdpbusd): step d is A[4d .. 4d + 3], step 8 + d is B[4d .. 4d + 3].
// Scales and mins are int16 pairs (A, B), per group or per half of a group.
#pragma once
#include "matmul_panels.h"

namespace tessera {
namespace {

struct alignas(64) PanelK {
  uint8_t q[64][kPanelRows][4];
  int16_t scales[8][kPanelRows][2];  // (A0, B0), (A1, B1) per group, or (A, B) where sub-blocks have 32 values
  int16_t mins[8][kPanelRows][2];    // the same
  float d[kPanelRows], dmin[kPanelRows];
};

struct PairOrder {
  static void emit(PanelK& panel, int lane, int g, int d, vi a, vi b) {
    store_i(panel.q[16 * g + 2 * d][lane], even_halves(a, left32(b, 16)));
    store_i(panel.q[16 * g + 2 * d + 1][lane], even_halves(right32(a, 16), b));
  }
};
struct NaturalOrder {
  static void emit(PanelK& panel, int lane, int g, int d, vi a, vi b) {
    store_i(panel.q[16 * g + d][lane], a);
    store_i(panel.q[16 * g + 8 + d][lane], b);
  }
};

// Bytes 0 and 2 of each dword as an int16 pair, unsigned or signed; bytes 1 and 3 likewise; bytes 0 and 1.
inline vi even_bytes(vi v) { return and_i(v, all32(0x00ff00ff)); }
inline vi odd_bytes(vi v) { return right16(v, 8); }
inline vi even_signed(vi v) { return right16_signed(left16(v, 8), 8); }
inline vi odd_signed(vi v) { return right16_signed(v, 8); }
inline vi low_bytes(vi v) { return or_i(and_i(v, all32(0xff)), left32(and_i(v, all32(0xff00)), 8)); }

// d, dmin and the eight 6-bit scales and mins of Q4_K and Q5_K: 16 bytes at the start of the block.
inline void unpack_header(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
  vi h[4];
  load_x4(rows, block, h);
  store_f(panel.d + lane, halves_low(h[0]));
  store_f(panel.dmin + lane, halves_high(h[0]));
  const vi scales[2] = {bits(h[1], 0, 63), or_i(bits(h[3], 0, 15), bits(h[1], 2, 0x30))};
  const vi mins[2] = {bits(h[2], 0, 63), or_i(bits(h[3], 4, 15), bits(h[2], 2, 0x30))};
  for (int g = 0; g < 4; ++g) {
    store_i(panel.scales[g][lane], low_bytes(right32(scales[g / 2], g % 2 * 16)));
    store_i(panel.mins[g][lane], low_bytes(right32(mins[g / 2], g % 2 * 16)));
  }
}

// Each type: values per scale (kSubBlock) and per min (kMinBlock, 0: no mins); kCentre, log2 of what is subtracted from
// the unsigned quant (0: nothing); kShortSums: 32 products would overflow int16, so only 16 are summed.
struct Q4_K {
  static constexpr QuantType kType = QuantType::Q4_K;
  static constexpr int kBytes = sizeof(BlockQ4_K), kSubBlock = 32, kMinBlock = 32, kCentre = 0;
  static constexpr bool kShortSums = false;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    unpack_header(rows, block, lane, panel);
    for (int g = 0; g < 4; ++g) {
      vi v[8];
      load_x8(rows, block + 16 + 32 * g, v);
      for (int d = 0; d < 8; ++d) Order::emit(panel, lane, g, d, bits(v[d], 0, 15), bits(v[d], 4, 15));
    }
  }
};

struct Q5_K {
  static constexpr QuantType kType = QuantType::Q5_K;
  static constexpr int kBytes = sizeof(BlockQ5_K), kSubBlock = 32, kMinBlock = 32, kCentre = 0;
  static constexpr bool kShortSums = true;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    unpack_header(rows, block, lane, panel);
    vi high[8];
    load_x8(rows, block + 16, high);
    for (int g = 0; g < 4; ++g) {
      vi v[8];
      load_x8(rows, block + 48 + 32 * g, v);
      for (int d = 0; d < 8; ++d)
        Order::emit(panel, lane, g, d, or_i(bits(v[d], 0, 15), move_bits(high[d], 2 * g, 4, 16)),
                    or_i(bits(v[d], 4, 15), move_bits(high[d], 2 * g + 1, 4, 16)));
    }
  }
};

struct Q6_K {
  static constexpr QuantType kType = QuantType::Q6_K;
  static constexpr int kBytes = sizeof(BlockQ6_K), kSubBlock = 16, kMinBlock = 0, kCentre = 5;
  static constexpr bool kShortSums = true;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    store_f(panel.d + lane, load_halves(rows, block + 208));
    vi scales[4];
    load_x4(rows, block + 192, scales);
    for (int g = 0; g < 4; ++g) {
      store_i(panel.scales[2 * g][lane], even_signed(scales[g]));
      store_i(panel.scales[2 * g + 1][lane], odd_signed(scales[g]));
    }
    for (int h = 0; h < 2; ++h) {
      vi a[8], b[8], high[8];
      load_x8(rows, block + 64 * h, a);
      load_x8(rows, block + 64 * h + 32, b);
      load_x8(rows, block + 128 + 32 * h, high);
      for (int d = 0; d < 8; ++d) {
        Order::emit(panel, lane, 2 * h, d, or_i(bits(a[d], 0, 15), move_bits(high[d], 0, 4, 0x30)),
                    or_i(bits(b[d], 0, 15), move_bits(high[d], 2, 4, 0x30)));
        Order::emit(panel, lane, 2 * h + 1, d, or_i(bits(a[d], 4, 15), move_bits(high[d], 4, 4, 0x30)),
                    or_i(bits(b[d], 4, 15), move_bits(high[d], 6, 4, 0x30)));
      }
    }
  }
};

struct Q3_K {
  static constexpr QuantType kType = QuantType::Q3_K;
  static constexpr int kBytes = sizeof(BlockQ3_K), kSubBlock = 16, kMinBlock = 0, kCentre = 2;
  static constexpr bool kShortSums = true;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    __m128i header[kLanes];  // 12 bytes of scales and d, at the end of the block: loaded with two bytes before them
    for (int r = 0; r < kLanes; ++r) header[r] = _mm_srli_si128(load128(rows[r] + block + 94), 2);
    vi h[4];
    transpose(header, h);
    store_f(panel.d + lane, halves_low(h[3]));
    for (int g = 0; g < 4; ++g) {  // scales 4g .. 4g + 3 as the bytes of a lane
      const vi low = bits(h[g % 2], g / 2 * 4, 15), high = move_bits(h[2], 2 * g, 4, 0x30);
      const vi scales = sub8(or_i(low, high), all8(32));
      store_i(panel.scales[2 * g][lane], even_signed(scales));
      store_i(panel.scales[2 * g + 1][lane], odd_signed(scales));
    }
    vi high[8];
    load_x8(rows, block, high);
    for (int half = 0; half < 2; ++half) {
      vi v[8];
      load_x8(rows, block + 32 + 32 * half, v);
      for (int d = 0; d < 8; ++d)
        for (int e = 0; e < 2; ++e) {
          const int g = 2 * half + e;
          Order::emit(panel, lane, g, d, or_i(bits(v[d], 4 * e, 3), move_bits(high[d], 2 * g, 2, 4)),
                      or_i(bits(v[d], 4 * e + 2, 3), move_bits(high[d], 2 * g + 1, 2, 4)));
        }
    }
  }
};

struct Q2_K {
  static constexpr QuantType kType = QuantType::Q2_K;
  static constexpr int kBytes = sizeof(BlockQ2_K), kSubBlock = 16, kMinBlock = 16, kCentre = 0;
  static constexpr bool kShortSums = true;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    const vi both = load_dwords(rows, block + 80);
    store_f(panel.d + lane, halves_low(both));
    store_f(panel.dmin + lane, halves_high(both));
    vi s[4];
    load_x4(rows, block, s);
    for (int g = 0; g < 4; ++g) {
      const vi scales = bits(s[g], 0, 15), mins = bits(s[g], 4, 15);
      store_i(panel.scales[2 * g][lane], even_bytes(scales));
      store_i(panel.scales[2 * g + 1][lane], odd_bytes(scales));
      store_i(panel.mins[2 * g][lane], even_bytes(mins));
      store_i(panel.mins[2 * g + 1][lane], odd_bytes(mins));
    }
    for (int half = 0; half < 2; ++half) {
      vi v[8];
      load_x8(rows, block + 16 + 32 * half, v);
      for (int d = 0; d < 8; ++d) {
        Order::emit(panel, lane, 2 * half, d, bits(v[d], 0, 3), bits(v[d], 2, 3));
        Order::emit(panel, lane, 2 * half + 1, d, bits(v[d], 4, 3), bits(v[d], 6, 3));
      }
    }
  }
};

// Adds one block's contribution to the sums: floats and mins, shared by both kinds of products.
template <class Type, class Accumulate, int T>
inline void add_block(const PanelK& panel, const Record256& at, size_t stride, const uint8_t* packed, int block,
                      const vi (&scaled)[T][2], vf (&sums)[T][2]) {
  const uint8_t* x_scale = packed + at.scales + static_cast<size_t>(block) * 4;
  constexpr int kPairs = Type::kMinBlock == 32 ? 4 : 8;
  const uint8_t* x_sums = Type::kMinBlock == 32 ? packed + at.sums32 + static_cast<size_t>(block) * 16
                                                : packed + at.sums16 + static_cast<size_t>(block) * 32;
  for (int t = 0; t < T; ++t)
    for (int h = 0; h < 2; ++h) {
      vf value = mul_f(to_float(scaled[t][h]), load_f(panel.d + kLanes * h));
      if constexpr (Type::kMinBlock != 0) {
        vi mins = zero_i();
        for (int j = 0; j < kPairs; ++j)
          mins = Accumulate::add(mins, load_i(panel.mins[j][kLanes * h]), broadcast32(x_sums + t * stride + 4 * j));
        value = minus_product(to_float(mins), load_f(panel.dmin + kLanes * h), value);
      }
      sums[t][h] = fma_f(value, broadcastf(x_scale + t * stride), sums[t][h]);
    }
}

}  // namespace
}  // namespace tessera
