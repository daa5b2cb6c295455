// GGUF block types as slices: 32 weights in a row as small integers with their scales.
//
// A slice is the unit of work everywhere: a lane multiplies one with 32 activations, a thread unpacks one into a tile.
// w[i] = scale[i / 16] * q[i] - min[i / 16]. Types with one scale per 32 set kScales to 1 and use the first of each
// pair only; types without an offset set kHasMin to false. Blocks are read with the widest loads that their size
// allows (the first block of a matrix is 16-byte aligned). Layouts: kernels/cpu/quant_type.h.
#pragma once
#include "language.cuh"

namespace {

struct Slice {
  int q[8];  // four int8 each, in order
  float scale[2], min[2];
};

template <int kAlign> inline uint32_t load_word(const uint8_t* p) {
  if constexpr (kAlign >= 4) return *(const uint32_t*)p;
  const uint16_t* const h = (const uint16_t*)p;
  return h[0] | uint32_t(h[1]) << 16;
}
template <int kAlign, int kWords> inline void load_words(const uint8_t* p, uint32_t (&words)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; i += kAlign >= 16 ? 4 : 1) {
    if constexpr (kAlign >= 16) {
      const uint4 v = *(const uint4*)(p + 4 * i);
      words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
    } else {
      words[i] = load_word<kAlign>(p + 4 * i);
    }
  }
}
inline float load_half(const uint8_t* p) { return half_to_float(*(const uint16_t*)p); }

// Subtracts `offset` from four bytes that are below 2 * offset <= 128, each by itself.
inline int minus(uint32_t bytes, int offset) {
  return int((bytes + uint32_t(128 - offset) * 0x01010101u) ^ 0x80808080u);
}
// Bits 0..3 to bit 0 of four bytes.
inline uint32_t spread(uint32_t bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }

struct q4_0 {
  static constexpr int kValues = 32, kBytes = 18, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[4];
    load_words<2>(block + 2, v);
    s.scale[0] = load_half(block);
#pragma unroll
    for (int i = 0; i < 4; ++i) s.q[i] = minus(v[i] & 0x0f0f0f0f, 8), s.q[i + 4] = minus(v[i] >> 4 & 0x0f0f0f0f, 8);
  }
};

struct q4_1 {
  static constexpr int kValues = 32, kBytes = 20, kScales = 1;
  static constexpr bool kHasMin = true;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[5];
    load_words<4>(block, v);
    s.scale[0] = half_to_float(uint16_t(v[0])), s.min[0] = -half_to_float(uint16_t(v[0] >> 16));
#pragma unroll
    for (int i = 0; i < 4; ++i) s.q[i] = int(v[i + 1] & 0x0f0f0f0f), s.q[i + 4] = int(v[i + 1] >> 4 & 0x0f0f0f0f);
  }
};

struct q5_0 {
  static constexpr int kValues = 32, kBytes = 22, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[5];
    load_words<2>(block + 2, v);
    s.scale[0] = load_half(block);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s.q[i] = minus((v[i + 1] & 0x0f0f0f0f) | spread(v[0] >> 4 * i) << 4, 16);
      s.q[i + 4] = minus((v[i + 1] >> 4 & 0x0f0f0f0f) | spread(v[0] >> (4 * i + 16)) << 4, 16);
    }
  }
};

struct q5_1 {
  static constexpr int kValues = 32, kBytes = 24, kScales = 1;
  static constexpr bool kHasMin = true;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[6];
    load_words<4>(block, v);
    s.scale[0] = half_to_float(uint16_t(v[0])), s.min[0] = -half_to_float(uint16_t(v[0] >> 16));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s.q[i] = int((v[i + 2] & 0x0f0f0f0f) | spread(v[1] >> 4 * i) << 4);
      s.q[i + 4] = int((v[i + 2] >> 4 & 0x0f0f0f0f) | spread(v[1] >> (4 * i + 16)) << 4);
    }
  }
};

struct q8_0 {
  static constexpr int kValues = 32, kBytes = 34, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[8];
    load_words<2>(block + 2, v);
    s.scale[0] = load_half(block);
#pragma unroll
    for (int i = 0; i < 8; ++i) s.q[i] = int(v[i]);
  }
};

struct q2_k {  // scales and mins [16] (nibbles), quants [64] (2 bits), d, dmin
  static constexpr int kValues = 256, kBytes = 84, kScales = 2;
  static constexpr bool kHasMin = true;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[8];
    load_words<4>(block + 16 + slice / 4 * 32, v);
    const uint32_t factors = *(const uint16_t*)(block + 2 * slice), halves = load_word<4>(block + 80);
    const float d = half_to_float(uint16_t(halves)), dmin = half_to_float(uint16_t(halves >> 16));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s.scale[h] = d * float(factors >> 8 * h & 15);
      s.min[h] = dmin * float(factors >> (8 * h + 4) & 15);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) s.q[i] = int(v[i] >> slice % 4 * 2 & 0x03030303);
  }
};

struct q3_k {  // high bits [32], quants [64] (2 bits), scales [12] (6 bits), d
  static constexpr int kValues = 256, kBytes = 110, kScales = 2;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t low[8], high[8];
    load_words<2>(block + 32 + slice / 4 * 32, low);
    load_words<2>(block, high);
    // Scale j: low nibble of byte j (j < 8) or high nibble of byte j - 8, and 2 bits of byte 8 + j % 4. j = 2 * slice.
    const uint32_t nibbles = *(const uint16_t*)(block + 96 + slice % 4 * 2) >> slice / 4 * 4;
    const uint32_t tops = *(const uint16_t*)(block + 104 + slice % 2 * 2) >> slice / 2 * 2;
    const float d = load_half(block + 108);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      s.scale[h] = d * float(int((nibbles >> 8 * h & 15) | (tops >> 8 * h & 3) << 4) - 32);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      s.q[i] = minus((low[i] >> slice % 4 * 2 & 0x03030303) | (high[i] >> slice & 0x01010101) << 2, 4);
  }
};

// d, dmin and eight 6-bit scales and mins: the first 16 bytes of Q4_K and Q5_K.
inline void unpack_factors(const uint8_t* block, int slice, Slice& s) {
  const uint4 head = *(const uint4*)block;
  const int shift = slice % 4 * 8;
  const uint32_t a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
  const uint32_t scale = slice < 4 ? a & 63 : (c & 15) | (a >> 2 & 0x30);
  const uint32_t min = slice < 4 ? b & 63 : (c >> 4 & 15) | (b >> 2 & 0x30);
  s.scale[0] = half_to_float(uint16_t(head.x)) * float(scale);
  s.min[0] = half_to_float(uint16_t(head.x >> 16)) * float(min);
}

struct q4_k {  // factors [16], quants [128] (nibbles)
  static constexpr int kValues = 256, kBytes = 144, kScales = 1;
  static constexpr bool kHasMin = true;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[8];
    load_words<16>(block + 16 + slice / 2 * 32, v);
    unpack_factors(block, slice, s);
#pragma unroll
    for (int i = 0; i < 8; ++i) s.q[i] = int(v[i] >> slice % 2 * 4 & 0x0f0f0f0f);
  }
};

struct q5_k {  // factors [16], high bits [32], quants [128] (nibbles)
  static constexpr int kValues = 256, kBytes = 176, kScales = 1;
  static constexpr bool kHasMin = true;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t low[8], high[8];
    load_words<16>(block + 48 + slice / 2 * 32, low);
    load_words<16>(block + 16, high);
    unpack_factors(block, slice, s);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      s.q[i] = int((low[i] >> slice % 2 * 4 & 0x0f0f0f0f) | (high[i] >> slice & 0x01010101) << 4);
  }
};

struct q6_k {  // low nibbles [128], high bits [64] (2 bits), scales [16] (int8), d
  static constexpr int kValues = 256, kBytes = 210, kScales = 2;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t low[8], high[8];
    load_words<2>(block + slice / 4 * 64 + slice % 2 * 32, low);
    load_words<2>(block + 128 + slice / 4 * 32, high);
    const uint32_t factors = *(const uint16_t*)(block + 192 + 2 * slice);
    const float d = load_half(block + 208);
    s.scale[0] = d * float(int8_t(factors)), s.scale[1] = d * float(int8_t(factors >> 8));
    const int low_shift = slice % 4 / 2 * 4, high_shift = slice % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      s.q[i] = minus((low[i] >> low_shift & 0x0f0f0f0f) | (high[i] >> high_shift & 0x03030303) << 4, 32);
  }
};

// Slice `index` of a row that starts at `row`.
template <class Type> inline Slice load_slice(const uint8_t* row, int index) {
  constexpr int kPerBlock = Type::kValues / 32;
  Slice s;
  Type::unpack(row + index / kPerBlock * Type::kBytes, index % kPerBlock, s);
  return s;
}
template <class Type> inline long long row_bytes(int cols) { return (long long)(cols / Type::kValues) * Type::kBytes; }

// ---- activations -------------------------------------------------------------------------------------------------

// 32 activations: x[i] = scale * q[i]; the sums of q over each half meet the weights' mins. The int8 values of a row
// lie in an array of their own, [rows][cols], so that they load 16 bytes at a time.
struct __align__(8) Facts {
  float scale;
  int16_t sums[2];
};

inline void load_activations(const int8_t* q, int (&x)[8]) {
  const int4 a = ((const int4*)q)[0], b = ((const int4*)q)[1];
  x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}

template <class Type> inline float dot(const Slice& w, const int (&x)[8], const Facts& facts) {
  int low = 0, high = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) low = __dp4a(w.q[i], x[i], low), high = __dp4a(w.q[i + 4], x[i + 4], high);
  float sum = Type::kScales == 1 ? w.scale[0] * float(low + high) : w.scale[0] * float(low) + w.scale[1] * float(high);
  if constexpr (Type::kHasMin)
    sum -= Type::kScales == 1 ? w.min[0] * float(facts.sums[0] + facts.sums[1])
                              : w.min[0] * float(facts.sums[0]) + w.min[1] * float(facts.sums[1]);
  return facts.scale * sum;
}

}  // namespace
