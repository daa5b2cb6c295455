// Private to the x86 tiers: types of 256 values that stand in a codebook, from raw rows.
//
// A block is visited 32 values at a time as the K types are, but its values are signed: vpmaddubsw takes their
// magnitudes and the activations under their signs. Panels are made from the same rows, so that each type is decoded in
// one place.
#pragma once
#include "matmul_codebook.h"
#include "matmul_rows_k.h"

namespace tessera {
namespace {

// Each type: begin(w), then values(j) for j = 0 .. 7, signed; scale_words, sixteen int16, one per 16 values; d.
// kSubBlock: 32 where pairs of scales are equal. kWide: values exceed ±16. Product: the one with few tokens, which asks
// for terms(j), or where the values plus an offset are small and unsigned, for quants(j) as those of the K types.
struct Terms {
  __m256i magnitudes, signs;  // signs: any numbers that have them
  __m256i values() const { return _mm256_sign_epi8(magnitudes, signs); }
};
template <class Row>
struct CodebookRows;
struct CodebookRow {
  __m256i scale_words, first, second;  // in order; scales 0..7 and 8..15 in both halves
  float d;
  void set_scales(__m256i words) {
    scale_words = words;
    first = _mm256_permute2x128_si256(words, words, 0x00), second = _mm256_permute2x128_si256(words, words, 0x11);
  }
  void set_scales(__m128i words) {  // one per 32 values
    set_scales(_mm256_setr_m128i(_mm_unpacklo_epi16(words, words), _mm_unpackhi_epi16(words, words)));
  }
  __m256i scales(int j) const {
    return _mm256_shuffle_epi8(j < 4 ? first : second, spread(2 * (j % 4), 2 * (j % 4) + 1));
  }
};

struct IQ4_XSRow : CodebookRow {
  static constexpr QuantType kType = QuantType::IQ4_XS;
  static constexpr int kBytes = sizeof(BlockIQ4_XS), kSubBlock = 32;
  static constexpr bool kWide = true;
  using Product = CodebookRows<IQ4_XSRow>;
  const uint8_t* qs;
  void begin(const uint8_t* w) {
    const __m128i four = _mm_cvtsi32_si128(load32(w + 4)), mask = _mm_set1_epi8(15);
    const __m128i low = _mm_unpacklo_epi8(_mm_and_si128(four, mask), _mm_and_si128(_mm_srli_epi16(four, 4), mask));
    const __m128i up = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
    const __m128i two = _mm_mullo_epi16(_mm_set1_epi16(static_cast<short>(load32(w) >> 16)), up);
    const __m128i high = _mm_slli_epi16(_mm_srli_epi16(two, 14), 4);
    set_scales(_mm_sub_epi16(_mm_or_si128(_mm_cvtepu8_epi16(low), high), _mm_set1_epi16(32)));
    d = half1(w);
    qs = w + 8;
  }
  __m256i values(int j) const {
    const __m128i v = load16(qs + 16 * j);
    const __m256i nibbles = and8(_mm256_setr_m128i(v, _mm_srli_epi16(v, 4)), 15);
    return _mm256_shuffle_epi8(both(load_codebook(kIq4Values)), nibbles);
  }
  Terms terms(int j) const {
    const __m256i v = values(j);
    return {_mm256_abs_epi8(v), v};
  }
};

template <class Row>
struct CodebookRows {
  template <int T>
  static void multiply(const MatmulTask& task) {
    const Record256 at(task.cols);
    const int blocks = task.cols / 256;
    for (int r = 0; r < task.rows; ++r) {
      const uint8_t* w = task.weights + r * task.row_bytes;
      __m256 sums[T];
      for (int t = 0; t < T; ++t) sums[t] = _mm256_setzero_ps();
      for (int b = 0; b < blocks; ++b, w += Row::kBytes) {
        prefetch_ahead(w, Row::kBytes);
        Row row;
        row.begin(w);
        __m256i scaled[T];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          const Terms terms = row.terms(j);
          const __m256i scale = row.scales(j);
#pragma GCC unroll 3
          for (int t = 0; t < T; ++t) {
            const __m256i x = load256(task.packed + t * at.stride + 256 * b + 32 * j);
            const __m256i products = _mm256_maddubs_epi16(terms.magnitudes, _mm256_sign_epi8(x, terms.signs));
            const __m256i part = _mm256_madd_epi16(products, scale);
            scaled[t] = j == 0 ? part : _mm256_add_epi32(scaled[t], part);
          }
        }
        for (int t = 0; t < T; ++t) {
          const float x_scale = loadf(task.packed + t * at.stride + at.scales + 4 * b);
          sums[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(scaled[t]), _mm256_set1_ps(row.d * x_scale), sums[t]);
        }
      }
      for (int t = 0; t < T; ++t) task.out[t * task.out_stride + r] = sum8(sums[t]);
    }
  }
};

}  // namespace
}  // namespace tessera
