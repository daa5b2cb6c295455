// Private to the AVX2 tier: how blocks of the K types are unpacked, 8 rows at a time, one row per 32-bit lane.
//
// Values i and i + 32 of each 64 are interleaved in pairs (see Record256): step 16 * g + 2 * d + e of a panel holds, for
// each row, bytes A[4d + 2e], A[4d + 2e + 1], B[4d + 2e], B[4d + 2e + 1] of group g, with A its first 32 values and B
// its second. Scales and mins are int16 pairs in the same order.
#pragma once
#include "matmul_avx2.h"

namespace tessera {
namespace {

struct alignas(64) PanelK {
  uint8_t q[64][kPanelRows][4];
  int16_t scales[8][kPanelRows][2];  // (A0, B0), (A1, B1) per group, or (A, B) where sub-blocks have 32 values
  int16_t mins[8][kPanelRows][2];    // the same
  float d[kPanelRows], dmin[kPanelRows];
};

inline __m256i* vector_of(void* p) { return static_cast<__m256i*>(p); }

// Stores the two steps that hold dword `d` of A and B in group `g`; `half` is 0 or 8, the first row.
inline void emit(PanelK& panel, int half, int g, int d, __m256i a, __m256i b) {
  const __m256i first = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
  const __m256i second = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
  _mm256_store_si256(vector_of(panel.q[16 * g + 2 * d][half]), first);
  _mm256_store_si256(vector_of(panel.q[16 * g + 2 * d + 1][half]), second);
}

inline __m256i bits(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi8(static_cast<char>(mask)));
}
// Bits `from`, `from` + 1 … selected by mask, moved to bit `to` and up; mask is given at the target.
inline __m256i move_bits(__m256i v, int from, int to, int mask) {
  const __m256i moved = from > to ? _mm256_srli_epi32(v, from - to) : _mm256_slli_epi32(v, to - from);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
}

// Bytes 0 and 2 of each dword as an int16 pair, unsigned or signed; bytes 1 and 3 likewise; bytes 0 and 1.
inline __m256i even_bytes(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi32(0x00ff00ff)); }
inline __m256i odd_bytes(__m256i v) { return _mm256_srli_epi16(v, 8); }
inline __m256i even_signed(__m256i v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
inline __m256i odd_signed(__m256i v) { return _mm256_srai_epi16(v, 8); }
inline __m256i low_bytes(__m256i v) {
  return _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(0xff)),
                         _mm256_slli_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xff00)), 8));
}

// d, dmin and the eight 6-bit scales and mins of Q4_K and Q5_K: 16 bytes at the start of the block.
inline void unpack_header(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
  __m256i h[4];
  load_8x4(rows, block, h);
  _mm256_store_ps(panel.d + half, halves_low(h[0]));
  _mm256_store_ps(panel.dmin + half, halves_high(h[0]));
  const __m256i scales[2] = {bits(h[1], 0, 63), _mm256_or_si256(bits(h[3], 0, 15), bits(h[1], 2, 0x30))};
  const __m256i mins[2] = {bits(h[2], 0, 63), _mm256_or_si256(bits(h[3], 4, 15), bits(h[2], 2, 0x30))};
  for (int g = 0; g < 4; ++g) {
    const int shift = g % 2 * 16;
    _mm256_store_si256(vector_of(panel.scales[g][half]), low_bytes(_mm256_srli_epi32(scales[g / 2], shift)));
    _mm256_store_si256(vector_of(panel.mins[g][half]), low_bytes(_mm256_srli_epi32(mins[g / 2], shift)));
  }
}

struct Q4_K {
  static constexpr QuantType kType = QuantType::Q4_K;
  static constexpr int kBytes = sizeof(BlockQ4_K);
  static constexpr int kSubBlock = 32, kMinBlock = 32;  // values per scale and per min; 0: no mins
  static constexpr int kCentre = 0;                     // log2 of what is subtracted from the unsigned quant
  static constexpr bool kShortSums = false;             // 32 products of a pair would overflow int16: sum 16
  static void unpack8(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    unpack_header(rows, block, half, panel);
    for (int g = 0; g < 4; ++g) {
      __m256i v[8];
      load_8x8(rows, block + 16 + 32 * g, v);
      for (int d = 0; d < 8; ++d) emit(panel, half, g, d, bits(v[d], 0, 15), bits(v[d], 4, 15));
    }
  }
};

struct Q5_K {
  static constexpr QuantType kType = QuantType::Q5_K;
  static constexpr int kBytes = sizeof(BlockQ5_K);
  static constexpr int kSubBlock = 32, kMinBlock = 32, kCentre = 0;
  static constexpr bool kShortSums = true;
  static void unpack8(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    unpack_header(rows, block, half, panel);
    __m256i high[8];
    load_8x8(rows, block + 16, high);
    for (int g = 0; g < 4; ++g) {
      __m256i v[8];
      load_8x8(rows, block + 48 + 32 * g, v);
      for (int d = 0; d < 8; ++d)
        emit(panel, half, g, d, _mm256_or_si256(bits(v[d], 0, 15), move_bits(high[d], 2 * g, 4, 16)),
             _mm256_or_si256(bits(v[d], 4, 15), move_bits(high[d], 2 * g + 1, 4, 16)));
    }
  }
};

struct Q6_K {
  static constexpr QuantType kType = QuantType::Q6_K;
  static constexpr int kBytes = sizeof(BlockQ6_K);
  static constexpr int kSubBlock = 16, kMinBlock = 0, kCentre = 5;
  static constexpr bool kShortSums = true;
  static void unpack8(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    _mm256_store_ps(panel.d + half, load_halves(rows, block + 208));
    __m256i scales[4];
    load_8x4(rows, block + 192, scales);
    for (int g = 0; g < 4; ++g) {
      _mm256_store_si256(vector_of(panel.scales[2 * g][half]), even_signed(scales[g]));
      _mm256_store_si256(vector_of(panel.scales[2 * g + 1][half]), odd_signed(scales[g]));
    }
    for (int h = 0; h < 2; ++h) {
      __m256i a[8], b[8], high[8];
      load_8x8(rows, block + 64 * h, a);
      load_8x8(rows, block + 64 * h + 32, b);
      load_8x8(rows, block + 128 + 32 * h, high);
      for (int d = 0; d < 8; ++d) {
        emit(panel, half, 2 * h, d, _mm256_or_si256(bits(a[d], 0, 15), move_bits(high[d], 0, 4, 0x30)),
             _mm256_or_si256(bits(b[d], 0, 15), move_bits(high[d], 2, 4, 0x30)));
        emit(panel, half, 2 * h + 1, d, _mm256_or_si256(bits(a[d], 4, 15), move_bits(high[d], 4, 4, 0x30)),
             _mm256_or_si256(bits(b[d], 4, 15), move_bits(high[d], 6, 4, 0x30)));
      }
    }
  }
};

struct Q3_K {
  static constexpr QuantType kType = QuantType::Q3_K;
  static constexpr int kBytes = sizeof(BlockQ3_K);
  static constexpr int kSubBlock = 16, kMinBlock = 0, kCentre = 2;
  static constexpr bool kShortSums = true;
  static void unpack8(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    __m128i header[8];  // 12 bytes of scales and d, at the end of the block: loaded with two bytes before them
    for (int r = 0; r < 8; ++r) header[r] = _mm_srli_si128(load128(rows[r] + block + 94), 2);
    __m256i h[4];
    transpose_8x4(header, h);
    _mm256_store_ps(panel.d + half, halves_low(h[3]));
    const __m256i bias = _mm256_set1_epi8(32);
    for (int g = 0; g < 4; ++g) {  // scales 4g .. 4g + 3 as the bytes of a lane
      const __m256i low = bits(h[g % 2], g / 2 * 4, 15), high = move_bits(h[2], 2 * g, 4, 0x30);
      const __m256i scales = _mm256_sub_epi8(_mm256_or_si256(low, high), bias);
      _mm256_store_si256(vector_of(panel.scales[2 * g][half]), even_signed(scales));
      _mm256_store_si256(vector_of(panel.scales[2 * g + 1][half]), odd_signed(scales));
    }
    __m256i high[8];
    load_8x8(rows, block, high);
    for (int h2 = 0; h2 < 2; ++h2) {
      __m256i v[8];
      load_8x8(rows, block + 32 + 32 * h2, v);
      for (int d = 0; d < 8; ++d)
        for (int e = 0; e < 2; ++e) {
          const int g = 2 * h2 + e;
          emit(panel, half, g, d, _mm256_or_si256(bits(v[d], 4 * e, 3), move_bits(high[d], 2 * g, 2, 4)),
               _mm256_or_si256(bits(v[d], 4 * e + 2, 3), move_bits(high[d], 2 * g + 1, 2, 4)));
        }
    }
  }
};

struct Q2_K {
  static constexpr QuantType kType = QuantType::Q2_K;
  static constexpr int kBytes = sizeof(BlockQ2_K);
  static constexpr int kSubBlock = 16, kMinBlock = 16, kCentre = 0;
  static constexpr bool kShortSums = true;
  static void unpack8(const uint8_t* const* rows, size_t block, int half, PanelK& panel) {
    _mm256_store_ps(panel.d + half, load_halves(rows, block + 80));
    _mm256_store_ps(panel.dmin + half, load_halves(rows, block + 82));
    __m256i s[4];
    load_8x4(rows, block, s);
    for (int g = 0; g < 4; ++g) {
      const __m256i scales = bits(s[g], 0, 15), mins = bits(s[g], 4, 15);
      _mm256_store_si256(vector_of(panel.scales[2 * g][half]), even_bytes(scales));
      _mm256_store_si256(vector_of(panel.scales[2 * g + 1][half]), odd_bytes(scales));
      _mm256_store_si256(vector_of(panel.mins[2 * g][half]), even_bytes(mins));
      _mm256_store_si256(vector_of(panel.mins[2 * g + 1][half]), odd_bytes(mins));
    }
    for (int h = 0; h < 2; ++h) {
      __m256i v[8];
      load_8x8(rows, block + 16 + 32 * h, v);
      for (int d = 0; d < 8; ++d) {
        emit(panel, half, 2 * h, d, bits(v[d], 0, 3), bits(v[d], 2, 3));
        emit(panel, half, 2 * h + 1, d, bits(v[d], 4, 3), bits(v[d], 6, 3));
      }
    }
  }
};

}  // namespace
}  // namespace tessera
