// GGUF block types whose quants stand in a grid of groups of four or eight values, as slices of 32 weights; and those
// of ternary values.
#pragma once
#include "codebook_grids.cuh"
#include "quant_types.cuh"

namespace {

// Two bits each to four bytes; three bits each.
inline uint32_t spread_twos(uint32_t v) { return (v | v << 6 | v << 12 | v << 18) & 0x03030303; }
inline uint32_t spread_threes(uint32_t v) {
  return (v & 7) | (v << 5 & 0x700) | (v << 10 & 0x70000) | (v << 15 & 0x7000000);
}

// What a grid's places stand for.
inline uint32_t values_of_iq2(uint32_t places) { return 0x08080808 + places * 17 + (places >> 1 & 0x01010101); }
inline uint32_t values_of_iq3_xxs(uint32_t places) {
  return 0x04040404 + places * 8 + ((places + 0x01010101) >> 2 & 0x02020202);
}
inline uint32_t values_of_iq3_s(uint32_t places) { return 0x01010101 + places * 2; }

// Four values above 0, negative where a bit is set.
inline int with_signs(uint32_t values, uint32_t bits) {
  const uint32_t negative = spread(bits);
  return int((values ^ negative * 255) + negative);
}
// Seven bits and an eighth that makes the number of set ones even.
inline uint32_t even_signs(uint32_t v) { return (v & 127) | (__popc(v & 127) & 1) << 7; }

// Eight values of a two-bit grid to s.q[2 * group] and the next.
inline void set_eight(Slice& s, int group, uint32_t places, uint32_t signs) {
  s.q[2 * group] = with_signs(values_of_iq2(spread_twos(places & 255)), signs);
  s.q[2 * group + 1] = with_signs(values_of_iq2(spread_twos(places >> 8)), signs >> 4);
}

// Two nibbles as factors 2 f + 1, of 16 values each.
inline void set_scales(Slice& s, float d, uint32_t nibbles) {
  s.scale[0] = d * float(2 * (nibbles & 15) + 1), s.scale[1] = d * float(2 * (nibbles >> 4 & 15) + 1);
}

struct iq2_xxs {  // d, then per 32 values: four places, four times seven signs and a scale
  static constexpr int kValues = 256, kBytes = 66, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[2];
    load_words<2>(block + 2 + 8 * slice, v);
    s.scale[0] = load_half(block) * 0.125f * float(2 * (v[1] >> 28) + 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) set_eight(s, i, tessera::kIq2Xxs[v[0] >> 8 * i & 255], even_signs(v[1] >> 7 * i));
  }
};

struct iq2_xs {  // d, places (9 bits) and signs (7 bits) [32], scales [8] (nibbles, per 16 values)
  static constexpr int kValues = 256, kBytes = 74, kScales = 2;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[2];
    load_words<2>(block + 2 + 8 * slice, v);
    set_scales(s, load_half(block) * 0.125f, block[66 + slice]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t both = v[i / 2] >> i % 2 * 16 & 0xffff;
      set_eight(s, i, tessera::kIq2Xs[both & 511], even_signs(both >> 9));
    }
  }
};

struct iq2_s {  // d, low places [32], signs [32], high bits of places [8] (2 bits), scales [8] (nibbles, per 16 values)
  static constexpr int kValues = 256, kBytes = 82, kScales = 2;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    const uint32_t low = load_word<2>(block + 2 + 4 * slice), signs = load_word<2>(block + 34 + 4 * slice);
    const uint32_t high = block[66 + slice];
    set_scales(s, load_half(block) * 0.125f, block[74 + slice]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      set_eight(s, i, tessera::kIq2S[(low >> 8 * i & 255) | (high >> 2 * i & 3) << 8], signs >> 8 * i);
  }
};

struct iq3_xxs {  // d, places [64], per 32 values four times seven signs and a scale
  static constexpr int kValues = 256, kBytes = 98, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[2];
    load_words<2>(block + 2 + 8 * slice, v);
    const uint32_t factors = load_word<2>(block + 66 + 4 * slice);
    s.scale[0] = load_half(block) * 0.25f * float(2 * (factors >> 28) + 1);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t places = spread_threes(tessera::kIq3Xxs[v[i / 4] >> i % 4 * 8 & 255]);
      s.q[i] = with_signs(values_of_iq3_xxs(places), even_signs(factors >> i / 2 * 7) >> i % 2 * 4);
    }
  }
};

struct iq3_s {  // d, low places [64], high bits of places [8], signs [32], scales [4] (nibbles)
  static constexpr int kValues = 256, kBytes = 110, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[2];
    load_words<2>(block + 2 + 8 * slice, v);
    const uint32_t high = block[66 + slice], signs = load_word<2>(block + 74 + 4 * slice);
    s.scale[0] = load_half(block) * float(2 * (block[106 + slice / 2] >> slice % 2 * 4 & 15) + 1);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t place = (v[i / 4] >> i % 4 * 8 & 255) | (high >> i & 1) << 8;
      s.q[i] = with_signs(values_of_iq3_s(spread_threes(tessera::kIq3S[place])), signs >> 4 * i);
    }
  }
};

// Eight times -1, 0, 1 and one more or less: 8 * (place - 1) + 1 or - 1 in each byte.
inline void set_eight_thin(Slice& s, int group, uint32_t places, bool less) {
  const uint32_t plus = (less ? 128 - 9 : 128 - 7) * 0x01010101u;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    s.q[2 * group + h] = int((spread_twos(places >> 8 * h & 255) * 8 + plus) ^ 0x80808080u);
}

struct iq1_s {  // d, low places [32], per 32 values: four times three high bits, a scale (3 bits), the shift's sign
  static constexpr int kValues = 256, kBytes = 50, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    const uint32_t low = load_word<2>(block + 2 + 4 * slice), head = *(const uint16_t*)(block + 34 + 2 * slice);
    s.scale[0] = load_half(block) * 0.125f * float(2 * (head >> 12 & 7) + 1);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      set_eight_thin(s, i, tessera::kIq1[(low >> 8 * i & 255) | (head >> 3 * i & 7) << 8], head >> 15);
  }
};

struct iq1_m {  // low places [32], high bits [16] (per place 3 bits and the shift's sign), scales (3 bits) and d [8]
  static constexpr int kValues = 256, kBytes = 56, kScales = 2;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    const uint32_t low = load_word<4>(block + 4 * slice), high = *(const uint16_t*)(block + 32 + 2 * slice);
    const uint32_t first = load_word<4>(block + 48), second = load_word<4>(block + 52);
    const float d = half_to_float(uint16_t((first >> 12 & 15) | (first >> 24 & 0xf0) | (second >> 4 & 0xf00) |
                                           (second >> 16 & 0xf000)));
    const uint32_t factors = (slice < 4 ? first : second) >> (slice / 2 % 2 * 16 + slice % 2 * 6);
    s.scale[0] = d * 0.125f * float(2 * (factors & 7) + 1), s.scale[1] = d * 0.125f * float(2 * (factors >> 3 & 7) + 1);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      set_eight_thin(s, i, tessera::kIq1[(low >> 8 * i & 255) | (high >> 4 * i & 7) << 8], high >> (4 * i + 3) & 1);
  }
};

struct tq2_0 {  // quants [64] (2 bits, 1 more than the value), d
  static constexpr int kValues = 256, kBytes = 66, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[8];
    load_words<2>(block + slice / 4 * 32, v);
    s.scale[0] = load_half(block + 64);
#pragma unroll
    for (int i = 0; i < 8; ++i) s.q[i] = minus(v[i] >> slice % 4 * 2 & 0x03030303, 1);
  }
};

// Four bytes b, as fractions of 256, to the digit after the point in base three once they are multiplied by 3^power.
inline int digits(uint32_t bytes, int power) {
  const int factor = power == 0 ? 1 : power == 1 ? 3 : power == 2 ? 9 : power == 3 ? 27 : 81;
  const uint32_t even = (bytes & 0x00ff00ff) * factor & 0x00ff00ff, odd = (bytes >> 8 & 0x00ff00ff) * factor & 0x00ff00ff;
  return minus((even * 3 >> 8 & 0x00030003) | (odd * 3 & 0x03000300), 1);
}

struct tq1_0 {  // five digits a byte: 32 bytes, then 16; four a byte: 4; d
  static constexpr int kValues = 256, kBytes = 54, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    s.scale[0] = load_half(block + 52);
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // word i of the slice: 32 bytes per power, then 16, then 4
      const int word = 8 * slice + i;
      const int at = word < 40 ? 4 * i : word < 60 ? 32 + word % 4 * 4 : 48;
      const int power = word < 40 ? slice : word < 60 ? word / 4 - 10 : word - 60;
      s.q[i] = digits(load_word<2>(block + at), power);
    }
  }
};

}  // namespace
