// Private to the x86 tiers: the codebook types of grids, and of ternary values, from raw rows (matmul_rows_codebook.h).
#pragma once
#include <cstring>

#include "grids.h"
#include "matmul_rows_codebook.h"

namespace tessera {
namespace {

inline uint16_t load_half_word(const uint8_t* p) {
  uint16_t word;
  std::memcpy(&word, p, 2);
  return word;
}
inline __m256i four64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return _mm256_setr_epi64x(static_cast<long long>(a), static_cast<long long>(b), static_cast<long long>(c),
                            static_cast<long long>(d));
}
// Factors 2 s + 1 of small scales s.
inline __m128i odd_factors(__m128i words) { return _mm_add_epi16(_mm_add_epi16(words, words), _mm_set1_epi16(1)); }
inline __m256i odd_factors(__m256i words) {
  return _mm256_add_epi16(_mm256_add_epi16(words, words), _mm256_set1_epi16(1));
}
// Eight dwords below 2^15 as words, in order.
inline __m128i to_words(__m256i dwords) {
  return _mm_packus_epi32(_mm256_castsi256_si128(dwords), _mm256_extracti128_si256(dwords, 1));
}
// Sixteen nibbles of eight bytes as words, a byte's low one first.
inline __m256i nibble_words(const uint8_t* p) {
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  const __m128i v = _mm_cvtsi64_si128(static_cast<long long>(bytes)), mask = _mm_set1_epi8(15);
  return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask)));
}
// Four times seven signs of a word as 32 times 1 or -1.
inline __m256i even_signs(uint32_t v) {
  return four64(kSigns.at[v & 127], kSigns.at[v >> 7 & 127], kSigns.at[v >> 14 & 127], kSigns.at[v >> 21 & 127]);
}
// The same of 32 bits.
inline __m256i plain_signs(uint32_t bits) { return _mm256_or_si256(bit_bytes(bits), _mm256_set1_epi8(1)); }

struct IQ2_XXSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ2_XXS;
  static constexpr int kBytes = sizeof(BlockIQ2_XXS), kSubBlock = 32;
  static constexpr bool kWide = true;
  const uint8_t* qs;
  void begin(const uint8_t* w) {
    qs = w + 2;
    const __m256 low = _mm256_castsi256_ps(load256(qs)), high = _mm256_castsi256_ps(load256(qs + 32));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));  // words 1, 3, 9, 11, 5, 7, 13, 15
    set_scales(odd_factors(to_words(_mm256_srli_epi32(_mm256_permute4x64_epi64(odd, 0xd8), 28))));
    d = half1(w) * 0.125f;
  }
  __m256i quants(int j) const {
    const uint8_t* p = qs + 8 * j;
    const auto& g = kGridIq2Xxs.at;
    return _mm256_sign_epi8(four64(g[p[0]], g[p[1]], g[p[2]], g[p[3]]),
                            even_signs(static_cast<uint32_t>(load32(p + 4))));
  }
};

struct IQ2_XSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ2_XS;
  static constexpr int kBytes = sizeof(BlockIQ2_XS), kSubBlock = 16;
  static constexpr bool kWide = true;
  const uint8_t* qs;
  void begin(const uint8_t* w) {
    qs = w + 2;
    set_scales(odd_factors(nibble_words(w + 66)));
    d = half1(w) * 0.125f;
  }
  __m256i quants(int j) const {
    uint16_t v[4];
    std::memcpy(v, qs + 8 * j, 8);
    const auto& g = kGridIq2Xs.at;
    const auto& s = kSigns.at;
    return _mm256_sign_epi8(four64(g[v[0] & 511], g[v[1] & 511], g[v[2] & 511], g[v[3] & 511]),
                            four64(s[v[0] >> 9], s[v[1] >> 9], s[v[2] >> 9], s[v[3] >> 9]));
  }
};

struct IQ2_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ2_S;
  static constexpr int kBytes = sizeof(BlockIQ2_S), kSubBlock = 16;
  static constexpr bool kWide = true;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(odd_factors(nibble_words(w + 74)));
    d = half1(w) * 0.125f;
  }
  __m256i quants(int j) const {
    const uint8_t* p = w + 2 + 4 * j;
    const unsigned high = static_cast<unsigned>(w[66 + j]) << 2;
    const auto at = [&](int i) { return kGridIq2S.at[p[i] | (high << (6 - 2 * i) & 0x300)]; };
    return _mm256_sign_epi8(four64(at(0), at(1), at(2), at(3)),
                            plain_signs(static_cast<uint32_t>(load32(w + 34 + 4 * j))));
  }
};

struct IQ3_XXSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ3_XXS;
  static constexpr int kBytes = sizeof(BlockIQ3_XXS), kSubBlock = 32;
  static constexpr bool kWide = true;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(odd_factors(to_words(_mm256_srli_epi32(load256(w + 66), 28))));
    d = half1(w) * 0.25f;
  }
  __m256i quants(int j) const {
    const uint8_t* p = w + 2 + 8 * j;
    const auto at = [&](int i) { return static_cast<int>(kGridIq3Xxs.at[p[i]]); };
    return _mm256_sign_epi8(_mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)),
                            even_signs(static_cast<uint32_t>(load32(w + 66 + 4 * j))));
  }
};

struct IQ3_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ3_S;
  static constexpr int kBytes = sizeof(BlockIQ3_S), kSubBlock = 32;
  static constexpr bool kWide = false;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    const __m128i v = _mm_cvtsi32_si128(load32(w + 106)), mask = _mm_set1_epi8(15);
    const __m128i bytes = _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
    set_scales(odd_factors(_mm_cvtepu8_epi16(bytes)));
    d = half1(w);
  }
  __m256i quants(int j) const {
    const uint8_t* p = w + 2 + 8 * j;
    const unsigned high = w[66 + j];
    const auto at = [&](int i) { return static_cast<int>(kGridIq3S.at[p[i] | (high << (8 - i) & 256)]); };
    return _mm256_sign_epi8(_mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)),
                            plain_signs(static_cast<uint32_t>(load32(w + 74 + 4 * j))));
  }
};

struct IQ1_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ1_S;
  static constexpr int kBytes = sizeof(BlockIQ1_S), kSubBlock = 32;
  static constexpr bool kWide = false;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(odd_factors(_mm_and_si128(_mm_srli_epi16(load16(w + 34), 12), _mm_set1_epi16(7))));
    d = half1(w) * 0.125f;
  }
  __m256i quants(int j) const {
    const uint8_t* p = w + 2 + 4 * j;
    const unsigned head = load_half_word(w + 34 + 2 * j);
    const auto at = [&](int i) { return kGridIq1.at[p[i] | (head << 8 >> 3 * i & 0x700)]; };
    return _mm256_add_epi8(four64(at(0), at(1), at(2), at(3)), _mm256_set1_epi8(head >> 15 ? -1 : 1));
  }
};

struct IQ1_MRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ1_M;
  static constexpr int kBytes = sizeof(BlockIQ1_M), kSubBlock = 16;
  static constexpr bool kWide = false;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    uint64_t v;
    std::memcpy(&v, w + 48, 8);
    const __m256i four = both(_mm_cvtsi64_si128(static_cast<long long>(v)));
    const __m256i spread_four = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5,
                                                 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i up = _mm256_set1_epi64x(1LL << 13 | 1LL << (10 + 16) | 1LL << (7 + 32) | 1LL << (4 + 48));
    const __m256i top = _mm256_mullo_epi16(_mm256_shuffle_epi8(four, spread_four), up);  // three bits each
    set_scales(odd_factors(_mm256_srli_epi16(top, 13)));
    const uint64_t half = (v >> 12 & 15) | (v >> 24 & 0xf0) | (v >> 36 & 0xf00) | (v >> 48 & 0xf000);
    d = _cvtsh_ss(static_cast<uint16_t>(half)) * 0.125f;
  }
  __m256i quants(int j) const {
    const uint8_t* p = w + 4 * j;
    const unsigned high = load_half_word(w + 32 + 2 * j);
    const auto at = [&](int i) { return kGridIq1.at[p[i] | (high << 8 >> 4 * i & 0x700)]; };
    const auto shift = [&](int i) { return high >> (4 * i + 3) & 1 ? ~uint64_t{0} : 0x0101010101010101; };
    return _mm256_add_epi8(four64(at(0), at(1), at(2), at(3)), four64(shift(0), shift(1), shift(2), shift(3)));
  }
};

struct TQ2_0Row : CodebookRow {
  static constexpr QuantType kType = QuantType::TQ2_0;
  static constexpr int kBytes = sizeof(BlockTQ2_0), kSubBlock = 32;
  static constexpr bool kWide = false;
  const uint8_t* w;
  __m256i raw;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(_mm256_set1_epi16(1));
    d = half1(w + 64);
  }
  __m256i quants(int j) {
    if (j % 4 == 0) raw = load256(w + 8 * j);
    return _mm256_sub_epi8(and8(_mm256_srli_epi16(raw, j % 4 * 2), 3), _mm256_set1_epi8(1));
  }
};

// Bytes are fractions in base three: times three, modulo one, the next digit comes first. Visited in order.
struct TQ1_0Row : CodebookRow {
  static constexpr QuantType kType = QuantType::TQ1_0;
  static constexpr int kBytes = sizeof(BlockTQ1_0), kSubBlock = 32;
  static constexpr bool kWide = false;
  const uint8_t* w;
  __m256i many;
  __m128i few;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(_mm256_set1_epi16(1));
    d = half1(w + 52);
    many = load256(w), few = load16(w + 32);
  }
  static __m128i thrice(__m128i v) { return _mm_add_epi8(_mm_add_epi8(v, v), v); }
  static __m256i digits(__m256i v) {  // -1, 0 or 1: how many thirds of 256 there are, less one
    const auto reaches = [&](int third) {
      return _mm256_cmpeq_epi8(_mm256_max_epu8(v, _mm256_set1_epi8(static_cast<char>(third))), v);
    };
    return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_set1_epi8(-1), reaches(86)), reaches(171));
  }
  __m256i quants(int j) {
    if (j < 5) {
      const __m256i v = many;
      many = _mm256_add_epi8(_mm256_add_epi8(v, v), v);
      return digits(v);
    }
    const __m128i low = few;
    __m128i high = thrice(few);
    few = thrice(high);
    if (j == 7) {
      const __m128i one = _mm_cvtsi32_si128(load32(w + 48)), three = thrice(one), nine = thrice(three);
      high = _mm_unpacklo_epi64(_mm_unpacklo_epi32(one, three), _mm_unpacklo_epi32(nine, thrice(nine)));
    }
    return digits(_mm256_setr_m128i(low, high));
  }
};

// Calls fill.operator()<Row>() for every codebook type of 256 values.
template <class Fill>
void each_codebook_row(Fill&& fill) {
  const auto all = [&]<class... Rows>() { (fill.template operator()<Rows>(), ...); };
  all.template operator()<IQ4_XSRow, IQ3_SRow, IQ3_XXSRow, IQ2_SRow, IQ2_XSRow, IQ2_XXSRow, IQ1_SRow, IQ1_MRow,
                          TQ1_0Row, TQ2_0Row>();
}

}  // namespace
}  // namespace tessera
