// Private to the x86 tiers: K types with few tokens, straight from raw rows. Decode runs here.
//
// A block is visited 32 values at a time: the type yields a vector of unsigned quants and a vector of int16 scales (one
// sub-block of 16 per 128-bit half), every token multiplies them. Mins and centres go through the sums of the
// activations.
#pragma once
#include <type_traits>

#include "matmul_rows.h"

namespace tessera {
namespace {

inline __m256i and8(__m256i v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask))); }
inline __m256i both(__m128i v) { return _mm256_broadcastsi128_si256(v); }
// vpshufb pattern that spreads 16-bit word j (low half) and word k (high half) of a 128-bit vector.
inline __m256i spread(int j, int k) {
  return _mm256_setr_m128i(_mm_set1_epi16(static_cast<short>((2 * j + 1) << 8 | 2 * j)),
                           _mm_set1_epi16(static_cast<short>((2 * k + 1) << 8 | 2 * k)));
}

// Eight 6-bit scales (low 8 bytes) and mins (high 8 bytes) of Q4_K and Q5_K.
inline __m128i scales_and_mins(const uint8_t* s) {
  const uint32_t a = load32(s), b = load32(s + 4), c = load32(s + 8);
  return _mm_setr_epi32(static_cast<int>(a & 0x3f3f3f3f), static_cast<int>((c & 0x0f0f0f0f) | ((a >> 2) & 0x30303030)),
                        static_cast<int>(b & 0x3f3f3f3f),
                        static_cast<int>(((c >> 4) & 0x0f0f0f0f) | ((b >> 2) & 0x30303030)));
}

// Each type: block(w), then quants(j) for j = 0 .. 7, scales(j); d, and offset(sums16, sums32): int32 to subtract
// (sum over lanes) scaled by offset_d.
struct Rows32 {  // shared by Q4_K and Q5_K: eight sub-blocks of 32
  __m256i scale_words;
  __m128i min_words;
  float d, offset_d;
  void header(const uint8_t* w) {
    const __m128i bytes = scales_and_mins(w + 4);
    scale_words = both(_mm_cvtepu8_epi16(bytes));
    min_words = _mm_cvtepu8_epi16(_mm_unpackhi_epi64(bytes, bytes));
    const __m128 halves = _mm_cvtph_ps(_mm_cvtsi32_si128(load32(w)));
    d = _mm_cvtss_f32(halves);
    offset_d = _mm_cvtss_f32(_mm_movehdup_ps(halves));
  }
  __m256i scales(int j) const { return _mm256_shuffle_epi8(scale_words, spread(j, j)); }
  __m256i offset(const uint8_t*, const uint8_t* sums32) const {
    return _mm256_zextsi128_si256(_mm_madd_epi16(min_words, load16(sums32)));
  }
};

struct Q4_KRow : Rows32 {
  static constexpr int kBytes = sizeof(BlockQ4_K);
  const uint8_t* qs;
  __m256i raw;
  void begin(const uint8_t* w) { header(w), body(w); }
  void body(const uint8_t* w) { qs = w + 16; }
  __m256i quants(int j) {
    if (j % 2 == 0) raw = load256(qs + 16 * j);
    return and8(j % 2 ? _mm256_srli_epi16(raw, 4) : raw, 15);
  }
};

struct Q5_KRow : Rows32 {
  static constexpr int kBytes = sizeof(BlockQ5_K);
  const uint8_t* qs;
  __m256i raw, high;
  void begin(const uint8_t* w) { header(w), body(w); }
  void body(const uint8_t* w) { high = load256(w + 16), qs = w + 48; }
  __m256i quants(int j) {
    if (j % 2 == 0) raw = load256(qs + 16 * j);
    const __m256i fifth = j < 4 ? _mm256_slli_epi16(high, 4 - j) : _mm256_srli_epi16(high, j - 4);
    return _mm256_or_si256(and8(j % 2 ? _mm256_srli_epi16(raw, 4) : raw, 15), and8(fifth, 16));
  }
};

struct Rows16 {           // sixteen sub-blocks of 16
  __m256i first, second;  // scales 0..7 and 8..15 as int16, in both halves
  __m256i offset_words;   // what multiplies the activation sums, int16
  float d, offset_d;
  void set_scales(__m256i words) {
    first = _mm256_permute2x128_si256(words, words, 0x00), second = _mm256_permute2x128_si256(words, words, 0x11);
  }
  __m256i scales(int j) const {
    return _mm256_shuffle_epi8(j < 4 ? first : second, spread(2 * (j % 4), 2 * (j % 4) + 1));
  }
  __m256i offset(const uint8_t* sums16, const uint8_t*) const {
    return _mm256_madd_epi16(offset_words, load256(sums16));
  }
};

struct Q6_KRow : Rows16 {
  static constexpr int kBytes = sizeof(BlockQ6_K);
  const uint8_t* w;
  __m256i low[2], high;
  void begin(const uint8_t* block) {
    w = block;
    const __m256i words = _mm256_cvtepi8_epi16(load16(w + 192));
    set_scales(words);
    offset_words = words;
    d = half1(w + 208);
    offset_d = 32.0f * d;
  }
  __m256i quants(int j) {
    const int h = j / 4, part = j % 4;
    if (part == 0) low[0] = load256(w + 64 * h), low[1] = load256(w + 64 * h + 32), high = load256(w + 128 + 32 * h);
    const __m256i four = part < 2 ? low[part] : _mm256_srli_epi16(low[part - 2], 4);
    const __m256i two = part == 0   ? _mm256_slli_epi16(high, 4)
                        : part == 1 ? _mm256_slli_epi16(high, 2)
                        : part == 2 ? high
                                    : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(and8(four, 15), and8(two, 0x30));
  }
};

struct Q3_KRow : Rows16 {
  static constexpr int kBytes = sizeof(BlockQ3_K);
  const uint8_t* w;
  __m256i low, high;
  void begin(const uint8_t* block) {
    w = block;
    const uint32_t a = load32(w + 96), b = load32(w + 100), c = load32(w + 104);
    const __m128i fours =
        _mm_setr_epi32(static_cast<int>(a & 0x0f0f0f0f), static_cast<int>(b & 0x0f0f0f0f),
                       static_cast<int>((a >> 4) & 0x0f0f0f0f), static_cast<int>((b >> 4) & 0x0f0f0f0f));
    const __m128i twos =
        _mm_setr_epi32(static_cast<int>((c << 4) & 0x30303030), static_cast<int>((c << 2) & 0x30303030),
                       static_cast<int>(c & 0x30303030), static_cast<int>((c >> 2) & 0x30303030));
    const __m256i words = _mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_or_si128(fours, twos), _mm_set1_epi8(32)));
    set_scales(words);
    offset_words = words;
    d = half1(w + 108);
    offset_d = 4.0f * d;
    high = load256(w);
  }
  __m256i quants(int j) {
    if (j % 4 == 0) low = load256(w + 32 + 8 * j);
    const __m256i third = j < 2 ? _mm256_slli_epi16(high, 2 - j) : _mm256_srli_epi16(high, j - 2);
    return _mm256_or_si256(and8(_mm256_srli_epi16(low, j % 4 * 2), 3), and8(third, 4));
  }
};

struct Q2_KRow : Rows16 {
  static constexpr int kBytes = sizeof(BlockQ2_K);
  const uint8_t* w;
  __m256i low;
  void begin(const uint8_t* block) {
    w = block;
    const __m128i bytes = load16(w), mask = _mm_set1_epi8(15);
    set_scales(_mm256_cvtepu8_epi16(_mm_and_si128(bytes, mask)));
    offset_words = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
    d = half1(w + 80);
    offset_d = half1(w + 82);
  }
  __m256i quants(int j) {
    if (j % 4 == 0) low = load256(w + 16 + 8 * j);
    return and8(_mm256_srli_epi16(low, j % 4 * 2), 3);
  }
};

// kRows rows, `apart` rows from one another, against T tokens, block by block.
template <class Row, int kRows, int T>
inline void multiply_rows_k(const MatmulTask& task, const Record256& at, int row, int apart) {
  const int blocks = task.cols / 256;
  const uint8_t* w = task.weights + row * task.row_bytes;
  const size_t distance = static_cast<size_t>(apart) * task.row_bytes;
  __m256 sums[kRows][T], offsets[kRows][T];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < T; ++t) sums[r][t] = offsets[r][t] = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b, w += Row::kBytes) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* block = w + r * distance;
      prefetch_ahead(block, Row::kBytes);
      Row values;
      values.begin(block);
      __m256i scaled[T];
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const __m256i q = values.quants(j), scale = values.scales(j);
#pragma GCC unroll 3
        for (int t = 0; t < T; ++t) {
          const __m256i x = load256(task.packed + t * at.stride + 256 * b + 32 * j);
          const __m256i part = _mm256_madd_epi16(_mm256_maddubs_epi16(q, x), scale);
          scaled[t] = j == 0 ? part : _mm256_add_epi32(scaled[t], part);
        }
      }
      for (int t = 0; t < T; ++t) {
        const uint8_t* record = task.packed + t * at.stride;
        const float x_scale = loadf(record + at.scales + 4 * b);
        sums[r][t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(scaled[t]), _mm256_set1_ps(values.d * x_scale), sums[r][t]);
        const __m256i offset = values.offset(record + at.sums16 + 32 * b, record + at.sums32 + 16 * b);
        offsets[r][t] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(offset), _mm256_set1_ps(values.offset_d * x_scale), offsets[r][t]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < T; ++t)
      task.out[t * task.out_stride + row + r * apart] = sum8(_mm256_sub_ps(sums[r][t], offsets[r][t]));
}

// The 6-bit scales (low 8 bytes) and mins (high 8 bytes) of two rows' blocks that begin in `heads`, one in each half.
inline __m256i scales_and_mins_of_two(__m256i heads) {
  const auto of_words = [](int a, int b, int c, int d) { return both(_mm_setr_epi32(a, b, c, d)); };
  const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi32(heads, 0xed), of_words(0, 0, 0, 4)),
                                       of_words(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
  const __m256i high =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_shuffle_epi32(heads, 0xa5), 2), of_words(0, 0x30303030, 0, 0x30303030));
  return _mm256_or_si256(low, high);
}

// The same of two rows and one token, for Q4_K and Q5_K: a block's scales take as many instructions as half of its
// products, so that those of both rows are made at once. The bits are the same.
template <class Row>
inline void multiply_two_rows_k(const MatmulTask& task, const Record256& at, int row, int apart) {
  const int blocks = task.cols / 256;
  const uint8_t* const w[2] = {task.weights + row * task.row_bytes, task.weights + (row + apart) * task.row_bytes};
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, offsets = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b) {
    const size_t at_block = static_cast<size_t>(b) * Row::kBytes;
    const uint8_t* const block[2] = {w[0] + at_block, w[1] + at_block};
    const __m128i first = load16(block[0]), second = load16(block[1]);
    const __m256i bytes = scales_and_mins_of_two(_mm256_setr_m128i(first, second)), zero = _mm256_setzero_si256();
    const __m256i words = _mm256_unpacklo_epi8(bytes, zero), mins = _mm256_unpackhi_epi8(bytes, zero);
    const __m128 x_scale = _mm_broadcast_ss(reinterpret_cast<const float*>(task.packed + at.scales) + b);
    const __m128 factors = _mm_mul_ps(_mm_cvtph_ps(_mm_unpacklo_epi32(first, second)), x_scale);  // d, dmin, d, dmin
    const __m256i offset = _mm256_madd_epi16(mins, both(load16(task.packed + at.sums32 + 16 * b)));
    const __m256 offset_d =
        _mm256_setr_m128(_mm_shuffle_ps(factors, factors, 0x55), _mm_shuffle_ps(factors, factors, 0xff));
    offsets = _mm256_fmadd_ps(_mm256_cvtepi32_ps(offset), offset_d, offsets);
    const __m256 d[2] = {_mm256_broadcastss_ps(factors), _mm256_broadcastss_ps(_mm_movehl_ps(factors, factors))};
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      prefetch_ahead(block[r], Row::kBytes);
      Row values;
      values.body(block[r]);
      values.scale_words =
          r == 0 ? _mm256_permute2x128_si256(words, words, 0x00) : _mm256_permute2x128_si256(words, words, 0x11);
      __m256i scaled = _mm256_setzero_si256();
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const __m256i x = load256(task.packed + 256 * b + 32 * j);
        scaled =
            _mm256_add_epi32(scaled, _mm256_madd_epi16(_mm256_maddubs_epi16(values.quants(j), x), values.scales(j)));
      }
      sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(scaled), d[r], sums[r]);
    }
  }
  const __m128 less[2] = {_mm256_castps256_ps128(offsets), _mm256_extractf128_ps(offsets, 1)};
  for (int r = 0; r < 2; ++r) task.out[row + r * apart] = sum8(_mm256_sub_ps(sums[r], _mm256_zextps128_ps256(less[r])));
}

// One token takes two rows at once, from either half of the range: two streams side by side are read up to a fifth
// faster than one, while four, or two rows that lie together, are read no faster.
template <class Row>
struct RowsK {
  template <int T>
  static void multiply(const MatmulTask& task) {
    constexpr int kRows = T == 1 ? 2 : 1;
    const Record256 at(task.cols);
    const int apart = task.rows / kRows;
    for (int row = 0; row < apart; ++row)
      if constexpr (T == 1 && std::is_base_of_v<Rows32, Row>)
        multiply_two_rows_k<Row>(task, at, row, apart);
      else
        multiply_rows_k<Row, kRows, T>(task, at, row, apart);
    for (int row = apart * kRows; row < task.rows; ++row) multiply_rows_k<Row, 1, T>(task, at, row, 1);
  }
};

}  // namespace
}  // namespace tessera
