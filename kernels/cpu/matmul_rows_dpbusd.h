// Private to the AVX-512 VNNI tier: few tokens, straight from raw rows, 64 values per vpdpbusd. Decode runs here.
//
// K types: the int32 sums of two vectors are packed to int16 (four products fit) and one vpdpwssd applies the scales of
// all their sub-blocks, which one vpshufb has spread. 32-value types: two blocks per vector, four at a time.
#pragma once
#include "matmul_rows_32.h"
#include "matmul_rows_k.h"
#include "x86_512.h"

namespace tessera {
namespace {

inline __m512i load512(const void* p) { return _mm512_loadu_si512(p); }
inline __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
inline __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }
inline __m512i dot(__m512i q, const void* x) { return _mm512_dpbusd_epi32(_mm512_setzero_si512(), q, load512(x)); }
inline __m512i sixteen_where(__mmask64 mask) { return _mm512_maskz_set1_epi8(mask, 16); }

// vpshufb pattern: per 128-bit lane, word a[lane] four times, then word b[lane] four times.
inline __m512i spread_words(int a0, int a1, int a2, int a3, int b) {
  const auto four = [](int word) {
    const uint64_t pair = static_cast<uint64_t>((2 * word + 1) << 8 | 2 * word);
    return static_cast<long long>(pair * 0x0001000100010001ULL);
  };
  return _mm512_setr_epi64(four(a0), four(a0 + b), four(a1), four(a1 + b), four(a2), four(a2 + b), four(a3),
                           four(a3 + b));
}

// Each type: begin(w), quants(c) for four vectors of 64 values, scales(pair) for vectors 2 pair and 2 pair + 1; d, and
// the offset through the activations' sums as in the AVX2 rows.
struct DotRows32Values : Rows32 {  // Q4_K, Q5_K: vector c = sub-blocks 2c (low half) and 2c + 1 (high half)
  __m512i scale_lanes;
  void header512(const uint8_t* w) {
    header(w);
    scale_lanes = _mm512_broadcast_i32x4(_mm256_castsi256_si128(scale_words));
  }
  __m512i scales512(int pair) const {
    return _mm512_shuffle_epi8(scale_lanes, spread_words(4 * pair, 4 * pair, 4 * pair + 1, 4 * pair + 1, 2));
  }
};

struct Q4_KDot : DotRows32Values {
  static constexpr int kBytes = sizeof(BlockQ4_K);
  const uint8_t* qs;
  __m512i low, high;
  void begin(const uint8_t* w) { header512(w), qs = w + 16; }
  __m512i quants(int c) {
    if (c % 2 == 0) {
      const __m512i raw = load512(qs + 32 * c);
      low = low_nibbles(raw), high = high_nibbles(raw);
      return _mm512_shuffle_i64x2(low, high, 0x44);
    }
    return _mm512_shuffle_i64x2(low, high, 0xee);
  }
};

struct Q5_KDot : DotRows32Values {
  static constexpr int kBytes = sizeof(BlockQ5_K);
  const uint8_t* qs;
  __m512i low, high, fifth;
  void begin(const uint8_t* w) {
    header512(w);
    fifth = _mm512_broadcast_i64x4(load256(w + 16));
    qs = w + 48;
  }
  __m512i quants(int c) {
    if (c % 2 == 0) {
      const __m512i raw = load512(qs + 32 * c);
      low = low_nibbles(raw), high = high_nibbles(raw);
    }
    const __m512i four = c % 2 == 0 ? _mm512_shuffle_i64x2(low, high, 0x44) : _mm512_shuffle_i64x2(low, high, 0xee);
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << 2 * c)), next = _mm256_add_epi8(bit, bit);
    const __m512i which = _mm512_inserti64x4(_mm512_castsi256_si512(bit), next, 1);
    return _mm512_or_si512(four, sixteen_where(_mm512_test_epi8_mask(fifth, which)));
  }
};

struct Q6_KDot : Rows16 {  // vector c = sub-blocks 4c .. 4c + 3, one per 128-bit lane
  static constexpr int kBytes = sizeof(BlockQ6_K);
  const uint8_t* w;
  __m512i raw, two;
  void begin(const uint8_t* block) {
    w = block;
    offset_words = _mm256_cvtepi8_epi16(load16(w + 192));
    d = half1(w + 208);
    offset_d = 32.0f * d;
  }
  __m512i quants(int c) {
    const __m512i mask = _mm512_set1_epi8(0x30);
    if (c % 2 == 0) {
      raw = load512(w + 32 * c);
      const __m256i high = load256(w + 128 + 16 * c);
      two = _mm512_inserti64x4(_mm512_castsi256_si512(high), _mm256_srli_epi16(high, 2), 1);
      return _mm512_or_si512(low_nibbles(raw), _mm512_and_si512(_mm512_slli_epi16(two, 4), mask));
    }
    return _mm512_or_si512(high_nibbles(raw), _mm512_and_si512(two, mask));
  }
  __m512i scales512(int pair) const {
    const __m128i words = pair ? _mm256_extracti128_si256(offset_words, 1) : _mm256_castsi256_si128(offset_words);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(words), spread_words(0, 1, 2, 3, 4));
  }
};

inline float sum16(__m512 v) {
  return sum8(
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1))));
}

template <class Row>
struct DotRowsK {
  template <int T>
  static void multiply(const MatmulTask& task) {
    const Record256 at(task.cols);
    const int blocks = task.cols / 256;
    for (int r = 0; r < task.rows; ++r) {
      const uint8_t* w = task.weights + r * task.row_bytes;
      __m512 sums[T];
      __m256 offsets[T];
      for (int t = 0; t < T; ++t) sums[t] = _mm512_setzero_ps(), offsets[t] = _mm256_setzero_ps();
      for (int b = 0; b < blocks; ++b, w += Row::kBytes) {
        prefetch_ahead(w, Row::kBytes);
        Row row;
        row.begin(w);
        __m512i scaled[T];
        for (int t = 0; t < T; ++t) scaled[t] = _mm512_setzero_si512();
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; ++pair) {
          const __m512i q0 = row.quants(2 * pair), q1 = row.quants(2 * pair + 1), scales = row.scales512(pair);
#pragma GCC unroll 3
          for (int t = 0; t < T; ++t) {
            const uint8_t* x = task.packed + t * at.stride + 256 * b + 128 * pair;
            scaled[t] = _mm512_dpwssd_epi32(scaled[t], _mm512_packs_epi32(dot(q0, x), dot(q1, x + 64)), scales);
          }
        }
        for (int t = 0; t < T; ++t) {
          const uint8_t* record = task.packed + t * at.stride;
          const float x_scale = loadf(record + at.scales + 4 * b);
          sums[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(scaled[t]), _mm512_set1_ps(row.d * x_scale), sums[t]);
          const __m256i offset = row.offset(record + at.sums16 + 32 * b, record + at.sums32 + 16 * b);
          offsets[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(offset), _mm256_set1_ps(row.offset_d * x_scale), offsets[t]);
        }
      }
      for (int t = 0; t < T; ++t) task.out[t * task.out_stride + r] = sum16(sums[t]) - sum8(offsets[t]);
    }
  }
};

// ---- 32-value types ----------------------------------------------------------------------------------------------

// Two blocks' nibbles in natural order, from 16 bytes at the end of each block.
template <int kBytes>
inline __m512i nibbles_of_two(const uint8_t* w) {
  constexpr int kQs = kBytes - 16;
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(w + kQs)), load16(w + kBytes + kQs), 1);
  const __m512i twice =
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), _mm512_castsi256_si512(both));
  return low_nibbles(_mm512_mask_srli_epi32(twice, 0xf0f0, twice, 4));
}

// Two blocks' quants in natural order, and their products.
template <class Row>
struct QuantPair {
  static __m512i load(const uint8_t* w) {
    const __m512i q = nibbles_of_two<Row::kBytes>(w);
    if constexpr (!Row::kHasFifthBit) return q;
    constexpr int kHigh = Row::kBytes - 20;
    const uint64_t bits = static_cast<uint32_t>(load32(w + kHigh)) |
                          static_cast<uint64_t>(static_cast<uint32_t>(load32(w + Row::kBytes + kHigh))) << 32;
    return _mm512_or_si512(q, sixteen_where(bits));
  }
  static __m512i products(__m512i q, __m512i x) { return _mm512_dpbusd_epi32(_mm512_setzero_si512(), q, x); }
};
struct SignedPair {
  static __m512i products(__m512i q, __m512i x) {  // |w| times x with the sign of w
    const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(q), _mm512_setzero_si512(), x);
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_abs_epi8(q), signed_x);
  }
};
template <>
struct QuantPair<Q8_0Row> : SignedPair {
  static __m512i load(const uint8_t* w) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load256(w + 2)), load256(w + Q8_0Row::kBytes + 2), 1);
  }
};
template <class Row>
struct CodebookPair : SignedPair {
  static __m512i load(const uint8_t* w) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(Row::codebook()), nibbles_of_two<Row::kBytes>(w));
  }
};
template <>
struct QuantPair<IQ4_NLRow> : CodebookPair<IQ4_NLRow> {};
template <>
struct QuantPair<MXFP4Row> : CodebookPair<MXFP4Row> {};

template <class Row>
struct DotRows32 {
  template <int T>
  static void add_four(const uint8_t* w, const MatmulTask& task, const Record32& at, int b, __m512 (&wide)[T],
                       RowSums<T>& sums) {
    const Factors f = factors<Row, 4>(w);
    __m512 scales[T];
    for (int t = 0; t < T; ++t) {
      const uint8_t* record = task.packed + t * at.stride + 4 * b;
      const __m128 x_scales = _mm_loadu_ps(reinterpret_cast<const float*>(record + at.scales));
      scales[t] = _mm512_castps128_ps512(_mm_mul_ps(f.d, x_scales));
      if constexpr (Row::kHasSum)
        sums.offsets[t] =
            _mm_fmadd_ps(f.m, _mm_loadu_ps(reinterpret_cast<const float*>(record + at.sums)), sums.offsets[t]);
    }
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const __m512i q = QuantPair<Row>::load(w + 2 * pair * Row::kBytes);
      const int i = 2 * pair, j = i + 1;
      const __m512i which = _mm512_setr_epi32(i, i, i, i, i, i, i, i, j, j, j, j, j, j, j, j);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) {
        const __m512i x = load512(task.packed + t * at.stride + 32 * (b + i));
        wide[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(QuantPair<Row>::products(q, x)),
                                  _mm512_permutexvar_ps(which, scales[t]), wide[t]);
      }
    }
  }

  template <int T>
  static void multiply(const MatmulTask& task) {
    const Record32 at(task.cols);
    const int blocks = task.cols / 32;
    for (int r = 0; r < task.rows; ++r) {
      const uint8_t* w = task.weights + r * task.row_bytes;
      RowSums<T> sums;
      __m512 wide[T];
      for (int t = 0; t < T; ++t) wide[t] = _mm512_setzero_ps();
      int b = 0;
      for (; b + 4 <= blocks; b += 4, w += 4 * Row::kBytes) {
        prefetch_ahead(w, 4 * Row::kBytes);
        add_four<T>(w, task, at, b, wide, sums);
      }
      add_last<Row, T>(w, task, at, b, blocks - b, sums);
      for (int t = 0; t < T; ++t) task.out[t * task.out_stride + r] = sum16(wide[t]) + total<Row, T>(sums, t);
    }
  }
};

}  // namespace
}  // namespace tessera
