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
  using Product = CodebookRows<IQ2_XXSRow>;
  const uint8_t* qs;
  void begin(const uint8_t* w) {
    qs = w + 2;
    const __m256 low = _mm256_castsi256_ps(load256(qs)), high = _mm256_castsi256_ps(load256(qs + 32));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));  // words 1, 3, 9, 11, 5, 7, 13, 15
    set_scales(odd_factors(to_words(_mm256_srli_epi32(_mm256_permute4x64_epi64(odd, 0xd8), 28))));
    d = half1(w) * 0.125f;
  }
  Terms terms(int j) const {
    const uint8_t* p = qs + 8 * j;
    const auto& g = kGridIq2Xxs.at;
    return {four64(g[p[0]], g[p[1]], g[p[2]], g[p[3]]), even_signs(static_cast<uint32_t>(load32(p + 4)))};
  }
  __m256i values(int j) const { return terms(j).values(); }
};

struct IQ2_XSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ2_XS;
  static constexpr int kBytes = sizeof(BlockIQ2_XS), kSubBlock = 16;
  static constexpr bool kWide = true;
  using Product = CodebookRows<IQ2_XSRow>;
  const uint8_t* qs;
  void begin(const uint8_t* w) {
    qs = w + 2;
    set_scales(odd_factors(nibble_words(w + 66)));
    d = half1(w) * 0.125f;
  }
  Terms terms(int j) const {
    uint16_t v[4];
    std::memcpy(v, qs + 8 * j, 8);
    const auto& g = kGridIq2Xs.at;
    const auto& s = kSigns.at;
    return {four64(g[v[0] & 511], g[v[1] & 511], g[v[2] & 511], g[v[3] & 511]),
            four64(s[v[0] >> 9], s[v[1] >> 9], s[v[2] >> 9], s[v[3] >> 9])};
  }
  __m256i values(int j) const { return terms(j).values(); }
};

struct IQ2_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ2_S;
  static constexpr int kBytes = sizeof(BlockIQ2_S), kSubBlock = 16;
  static constexpr bool kWide = true;
  using Product = CodebookRows<IQ2_SRow>;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(odd_factors(nibble_words(w + 74)));
    d = half1(w) * 0.125f;
  }
  Terms terms(int j) const {
    const uint8_t* p = w + 2 + 4 * j;
    const unsigned high = static_cast<unsigned>(w[66 + j]) << 2;
    const auto at = [&](int i) { return kGridIq2S.at[p[i] | (high << (6 - 2 * i) & 0x300)]; };
    return {four64(at(0), at(1), at(2), at(3)), plain_signs(static_cast<uint32_t>(load32(w + 34 + 4 * j)))};
  }
  __m256i values(int j) const { return terms(j).values(); }
};

struct IQ3_XXSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ3_XXS;
  static constexpr int kBytes = sizeof(BlockIQ3_XXS), kSubBlock = 32;
  static constexpr bool kWide = true;
  using Product = CodebookRows<IQ3_XXSRow>;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(odd_factors(to_words(_mm256_srli_epi32(load256(w + 66), 28))));
    d = half1(w) * 0.25f;
  }
  Terms terms(int j) const {
    const uint8_t* p = w + 2 + 8 * j;
    const auto at = [&](int i) { return static_cast<int>(kGridIq3Xxs.at[p[i]]); };
    return {_mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)),
            even_signs(static_cast<uint32_t>(load32(w + 66 + 4 * j)))};
  }
  __m256i values(int j) const { return terms(j).values(); }
};

struct IQ3_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ3_S;
  static constexpr int kBytes = sizeof(BlockIQ3_S), kSubBlock = 32;
  static constexpr bool kWide = false;
  using Product = CodebookRows<IQ3_SRow>;
  const uint8_t* w;
  void begin(const uint8_t* block) {
    w = block;
    const __m128i v = _mm_cvtsi32_si128(load32(w + 106)), mask = _mm_set1_epi8(15);
    const __m128i bytes = _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
    set_scales(odd_factors(_mm_cvtepu8_epi16(bytes)));
    d = half1(w);
  }
  Terms terms(int j) const {
    const uint8_t* p = w + 2 + 8 * j;
    const unsigned high = w[66 + j];
    const auto at = [&](int i) { return static_cast<int>(kGridIq3S.at[p[i] | (high << (8 - i) & 256)]); };
    return {_mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)),
            plain_signs(static_cast<uint32_t>(load32(w + 74 + 4 * j)))};
  }
  __m256i values(int j) const { return terms(j).values(); }
};

// Thirds of a grid, plus or minus one: the products take them with eight or nine more, which the sums of the
// activations take off again.
struct IQ1_SRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ1_S;
  static constexpr int kBytes = sizeof(BlockIQ1_S), kSubBlock = 32;
  static constexpr bool kWide = false;
  using Product = RowsK<IQ1_SRow>;
  const uint8_t* w;
  __m128i offset_words;  // per 32 values
  float offset_d;
  void begin(const uint8_t* block) {
    w = block;
    const __m128i heads = load16(w + 34), one = _mm_set1_epi16(1);
    const __m128i factors = odd_factors(_mm_and_si128(_mm_srli_epi16(heads, 12), _mm_set1_epi16(7)));
    set_scales(factors);
    const __m128i negative = _mm_srli_epi16(heads, 15);  // then 8 g + 8 is nine more than the value, otherwise seven
    offset_words =
        _mm_mullo_epi16(factors, _mm_sub_epi16(_mm_slli_epi16(_mm_add_epi16(negative, _mm_set1_epi16(4)), 1), one));
    d = offset_d = half1(w) * 0.125f;
  }
  __m256i offset(const uint8_t*, const uint8_t* sums32) const {
    return _mm256_zextsi128_si256(_mm_madd_epi16(offset_words, load16(sums32)));
  }
  __m256i grid(int j) const {
    const uint8_t* p = w + 2 + 4 * j;
    const unsigned head = load_half_word(w + 34 + 2 * j);
    const auto at = [&](int i) { return kGridIq1.at[p[i] | (head << 8 >> 3 * i & 0x700)]; };
    return four64(at(0), at(1), at(2), at(3));
  }
  __m256i quants(int j) const { return _mm256_add_epi8(grid(j), _mm256_set1_epi8(8)); }
  __m256i values(int j) const {
    return _mm256_add_epi8(grid(j), _mm256_set1_epi8(load_half_word(w + 34 + 2 * j) >> 15 ? -1 : 1));
  }
};

struct IQ1_MRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ1_M;
  static constexpr int kBytes = sizeof(BlockIQ1_M), kSubBlock = 16;
  static constexpr bool kWide = false;
  using Product = RowsK<IQ1_MRow>;
  const uint8_t* w;
  __m256i offset_words;  // per 16 values
  float offset_d;
  void begin(const uint8_t* block) {
    w = block;
    uint64_t v;
    std::memcpy(&v, w + 48, 8);
    const __m256i four = both(_mm_cvtsi64_si128(static_cast<long long>(v)));
    const __m256i spread_four = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5,
                                                 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i up = _mm256_set1_epi64x(1LL << 13 | 1LL << (10 + 16) | 1LL << (7 + 32) | 1LL << (4 + 48));
    const __m256i top = _mm256_mullo_epi16(_mm256_shuffle_epi8(four, spread_four), up);  // three bits each
    const __m256i factors = odd_factors(_mm256_srli_epi16(top, 13));
    set_scales(factors);
    offset_words = _mm256_mullo_epi16(factors, _mm256_set1_epi16(9));
    const uint64_t half = (v >> 12 & 15) | (v >> 24 & 0xf0) | (v >> 36 & 0xf00) | (v >> 48 & 0xf000);
    d = offset_d = _cvtsh_ss(static_cast<uint16_t>(half)) * 0.125f;
  }
  __m256i offset(const uint8_t* sums16, const uint8_t*) const {
    return _mm256_madd_epi16(offset_words, load256(sums16));
  }
  // Nine more than the values: eight for the grid's, one for what is added to them.
  __m256i quants(int j) const {
    const uint8_t* p = w + 4 * j;
    const unsigned high = load_half_word(w + 32 + 2 * j);
    const auto at = [&](int i) { return kGridIq1.at[p[i] | (high << 8 >> 4 * i & 0x700)]; };
    const __m256i top = _mm256_sllv_epi64(_mm256_set1_epi64x(high), _mm256_setr_epi64x(60, 56, 52, 48));
    const __m256i negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), top);  // by the fourth bit of each eight values
    return _mm256_add_epi8(four64(at(0), at(1), at(2), at(3)),
                           _mm256_sub_epi8(_mm256_set1_epi8(10), and8(negative, 2)));
  }
  __m256i values(int j) const { return _mm256_sub_epi8(quants(j), _mm256_set1_epi8(9)); }
};

template <class Row>
struct TernaryRows;

struct TQ2_0Row : CodebookRow {
  static constexpr QuantType kType = QuantType::TQ2_0;
  static constexpr int kBytes = sizeof(BlockTQ2_0), kSubBlock = 32;
  static constexpr bool kWide = false;
  using Product = TernaryRows<TQ2_0Row>;
  const uint8_t* w;
  __m256i raw;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(_mm256_set1_epi16(1));
    d = half1(w + 64);
  }
  __m256i quants(int j) {
    if (j % 4 == 0) raw = load256(w + 8 * j);
    return and8(_mm256_srli_epi16(raw, j % 4 * 2), 3);
  }
  __m256i values(int j) { return _mm256_sub_epi8(quants(j), _mm256_set1_epi8(1)); }
};

// Bytes are fractions in base three: times three, modulo one, the next digit comes first. Visited in order. The bytes
// are kept with their sign bit turned, for signed comparisons; three times such a byte is one again.
struct TQ1_0Row : CodebookRow {
  static constexpr QuantType kType = QuantType::TQ1_0;
  static constexpr int kBytes = sizeof(BlockTQ1_0), kSubBlock = 32;
  static constexpr bool kWide = false;
  using Product = TernaryRows<TQ1_0Row>;
  const uint8_t* w;
  __m256i many;
  __m128i few;
  void begin(const uint8_t* block) {
    w = block;
    set_scales(_mm256_set1_epi16(1));
    d = half1(w + 52);
    many = _mm256_xor_si256(load256(w), _mm256_set1_epi8(-128)), few = turned(load16(w + 32));
  }
  static __m128i turned(__m128i v) { return _mm_xor_si128(v, _mm_set1_epi8(-128)); }
  static __m128i thrice(__m128i v) { return _mm_add_epi8(_mm_add_epi8(v, v), v); }
  static __m256i digits(__m256i v) {  // 0, 1 or 2: how many thirds of 256 there are
    const auto reaches = [&](int third) {
      return _mm256_cmpgt_epi8(v, _mm256_set1_epi8(static_cast<char>(third - 129)));
    };
    return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), reaches(86)), reaches(171));
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
      const __m128i one = turned(_mm_cvtsi32_si128(load32(w + 48))), three = thrice(one), nine = thrice(three);
      high = _mm_unpacklo_epi64(_mm_unpacklo_epi32(one, three), _mm_unpacklo_epi32(nine, thrice(nine)));
    }
    return digits(_mm256_setr_m128i(low, high));
  }
  __m256i values(int j) { return _mm256_sub_epi8(quants(j), _mm256_set1_epi8(1)); }
};

// Digits 0 … 2 without scales: a block's products fit 16 bits, 8 · 2 · 2 · 127 at most, and the activations' sum takes
// the one off that the digits are too large.
template <class Row>
struct TernaryRows {
  template <int T>
  static void multiply(const MatmulTask& task) {
    const Record256 at(task.cols);
    const int blocks = task.cols / 256;
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < task.rows; ++r) {
      const uint8_t* w = task.weights + r * task.row_bytes;
      __m256 sums[T];
      for (int t = 0; t < T; ++t) sums[t] = _mm256_setzero_ps();
      for (int b = 0; b < blocks; ++b, w += Row::kBytes) {
        prefetch_ahead(w, Row::kBytes);
        Row row;
        row.begin(w);
        __m256i products[T];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          const __m256i q = row.quants(j);
#pragma GCC unroll 3
          for (int t = 0; t < T; ++t) {
            const __m256i part = _mm256_maddubs_epi16(q, load256(task.packed + t * at.stride + 256 * b + 32 * j));
            products[t] = j == 0 ? part : _mm256_add_epi16(products[t], part);
          }
        }
        for (int t = 0; t < T; ++t) {
          const uint8_t* record = task.packed + t * at.stride;
          const __m256i less = _mm256_madd_epi16(load256(record + at.sums16 + 32 * b), ones);
          const __m256i sum = _mm256_sub_epi32(_mm256_madd_epi16(products[t], ones), less);
          const __m256 scale = _mm256_set1_ps(row.d * loadf(record + at.scales + 4 * b));
          sums[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, sums[t]);
        }
      }
      for (int t = 0; t < T; ++t) task.out[t * task.out_stride + r] = sum8(sums[t]);
    }
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
