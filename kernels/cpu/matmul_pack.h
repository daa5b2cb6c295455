// Private to the x86 tiers: packing of activations (AVX2), into the records of packed.h. The rules are those of the
// scalar tier, so that all tiers quantise alike.
#pragma once
#include <immintrin.h>

#include <cmath>

#include "matmul.h"
#include "matmul_rows.h"
#include "packed.h"

namespace tessera {
namespace {

// Largest |x| of a block as bits: compared as integers, so that NaN counts as larger than anything.
template <int kVectors>
float largest_magnitude(const float* x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < kVectors; ++i) largest = _mm256_max_epi32(largest, _mm256_and_si256(load256(x + 8 * i), mask));
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

inline float scale_for(float largest) { return largest < 0x1p-100f ? 0.0f : largest / 127.0f; }

// 32 floats to 32 int8 in order.
inline __m256i quantize32(const float* x, float inverse) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const auto at = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor)); };
  const __m256i words = _mm256_packs_epi32(at(0), at(1)), more = _mm256_packs_epi32(at(2), at(3));
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words, more), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Sums of the low and the high 16 bytes, as the low dword of each 128-bit half.
inline __m256i sums_of_16(__m256i bytes) {
  const __m256i eights = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
  return _mm256_add_epi32(eights, _mm256_shuffle_epi32(eights, 0x4e));
}

inline void quantize256(const float* x, float scale, __m256i* q) {
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int i = 0; i < 8; ++i) q[i] = quantize32(x + 32 * i, inverse);
}

// Quantises one block; returns the scale. See the scalar tier for the rule about flat blocks.
inline float quantize_block256(const float* x, __m256i* q) {
  const float largest = largest_magnitude<32>(x);
  if (!std::isfinite(largest)) {
    for (int i = 0; i < 8; ++i) q[i] = _mm256_setzero_si256();
    return NAN;
  }
  const float scale = scale_for(largest);
  quantize256(x, scale, q);
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < 8; ++i) most = _mm256_max_epi32(most, sums_of_16(_mm256_abs_epi8(q[i])));
  const int low = _mm256_extract_epi32(most, 0), high = _mm256_extract_epi32(most, 4);
  const int heaviest = low > high ? low : high;
  if (heaviest <= 1023) return scale;
  const float coarser = scale * (static_cast<float>(heaviest) / 1006.0f);
  quantize256(x, coarser, q);
  return coarser;
}

enum class Order { natural, pairs, natural_panels };  // rows; vpmaddubsw panels; vpdpbusd panels

template <Order kOrder>
void pack_row256(const float* x, int cols, uint8_t* record) {
  const Record256 at(cols);
  int16_t* sums16 = reinterpret_cast<int16_t*>(record + at.sums16);
  int16_t* sums32 = reinterpret_cast<int16_t*>(record + at.sums32);
  float* scales = reinterpret_cast<float*>(record + at.scales);
  [[maybe_unused]] int32_t* negative = reinterpret_cast<int32_t*>(record + at.negative_sums);
  constexpr bool kPanels = kOrder != Order::natural;
  const __m256i flip = _mm256_set1_epi8(-128);
  for (int b = 0; b < cols / 256; ++b, x += 256, sums16 += 16, sums32 += 8) {
    __m256i q[8];
    scales[b] = quantize_block256(x, q);
    for (int i = 0; i < 8; ++i) {
      const __m256i sums = sums_of_16(_mm256_xor_si256(q[i], flip));  // of q + 128
      const int low = _mm256_extract_epi32(sums, 0) - 2048, high = _mm256_extract_epi32(sums, 4) - 2048;
      const int first = kPanels ? i / 2 * 4 + i % 2 : 2 * i, second = kPanels ? first + 2 : first + 1;
      sums16[first] = static_cast<int16_t>(low), sums16[second] = static_cast<int16_t>(high);
      sums32[i] = static_cast<int16_t>(low + high);
      if constexpr (kOrder == Order::natural_panels) negative[16 * b + first] = -low, negative[16 * b + second] = -high;
    }
    __m256i* out = reinterpret_cast<__m256i*>(record + 256 * b);
    for (int g = 0; g < 8; g += 2) {
      if constexpr (kOrder == Order::pairs) {
        const __m256i u = _mm256_unpacklo_epi16(q[g], q[g + 1]), v = _mm256_unpackhi_epi16(q[g], q[g + 1]);
        _mm256_storeu_si256(out + g, _mm256_permute2x128_si256(u, v, 0x20));
        _mm256_storeu_si256(out + g + 1, _mm256_permute2x128_si256(u, v, 0x31));
      } else {
        _mm256_storeu_si256(out + g, q[g]), _mm256_storeu_si256(out + g + 1, q[g + 1]);
      }
    }
  }
}

template <Order kPanelOrder>
constexpr size_t stride256(int tokens, int cols) {
  const Record256 at(cols);
  return tokens > kRowTokens && kPanelOrder == Order::natural_panels ? at.stride_with_negative_sums : at.stride;
}

template <Order kPanelOrder>
void pack256(const float* x, ptrdiff_t x_stride, const int32_t* index, int tokens, int first, int last, int cols,
             uint8_t* out) {
  const size_t stride = stride256<kPanelOrder>(tokens, cols);
  for (int t = first; t < last; ++t) {
    const float* row = x + (index ? index[t] : t) * x_stride;
    if (tokens <= kRowTokens)
      pack_row256<Order::natural>(row, cols, out + t * stride);
    else
      pack_row256<kPanelOrder>(row, cols, out + t * stride);
  }
}

template <Order kPanelOrder>
void unpack256(const uint8_t* packed, int tokens, int t, int cols, float* out) {
  const Record256 at(cols);
  const uint8_t* record = packed + t * stride256<kPanelOrder>(tokens, cols);
  const bool pairs = tokens > kRowTokens && kPanelOrder == Order::pairs;
  for (int i = 0; i < cols; ++i) {
    const int g = i % 64, place = pairs ? g % 32 / 2 * 4 + g / 32 * 2 + g % 2 : g;
    const int8_t q = static_cast<int8_t>(record[i - g + place]);
    out[i] = loadf(record + at.scales + i / 256 * 4) * static_cast<float>(q);
  }
}

template <Order kPanelOrder>
size_t packed_bytes256(int tokens, int cols) {
  return tokens * stride256<kPanelOrder>(tokens, cols);
}

inline void pack_row32(const float* x, int cols, uint8_t* record) {
  const Record32 at(cols);
  float* scales = reinterpret_cast<float*>(record + at.scales);
  float* sums = reinterpret_cast<float*>(record + at.sums);
  int32_t* negative = reinterpret_cast<int32_t*>(record + at.negative_sums);
  for (int b = 0; b < cols / 32; ++b, x += 32) {
    const float largest = largest_magnitude<4>(x);
    const bool finite = std::isfinite(largest);
    const float scale = finite ? scale_for(largest) : NAN;
    const __m256i q = finite ? quantize32(x, scale > 0.0f ? 1.0f / scale : 0.0f) : _mm256_setzero_si256();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(record + 32 * b), q);
    // int16 sums of neighbours; the halves of a dword are then the two sums of that lane
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    __m128i s = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    s = _mm_add_epi16(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi16(s, _mm_shuffle_epi32(s, 0xb1));
    const int32_t both = _mm_cvtsi128_si32(s);
    std::memcpy(record + at.pair_sums + 4 * b, &both, 4);
    scales[b] = scale;
    const int32_t sum = static_cast<int16_t>(both & 0xffff) + (both >> 16);
    sums[b] = scale * static_cast<float>(sum);
    negative[b] = -sum;
  }
}

inline void pack32(const float* x, ptrdiff_t x_stride, const int32_t* index, int, int first, int last, int cols,
                   uint8_t* out) {
  const size_t stride = Record32(cols).stride;
  for (int t = first; t < last; ++t) pack_row32(x + (index ? index[t] : t) * x_stride, cols, out + t * stride);
}

inline void unpack32(const uint8_t* packed, int, int t, int cols, float* out) {
  const Record32 at(cols);
  const uint8_t* record = packed + t * at.stride;
  for (int i = 0; i < cols; ++i)
    out[i] = loadf(record + at.scales + i / 32 * 4) * static_cast<float>(static_cast<int8_t>(record[i]));
}

inline void pack_float(const float* x, ptrdiff_t x_stride, const int32_t* index, int, int first, int last, int cols,
                       uint8_t* out) {
  const size_t stride = float_stride(cols);
  for (int t = first; t < last; ++t)
    std::memcpy(out + t * stride, x + (index ? index[t] : t) * x_stride, cols * sizeof(float));
}

inline void unpack_float(const uint8_t* packed, int, int t, int cols, float* out) {
  std::memcpy(out, packed + t * float_stride(cols), cols * sizeof(float));
}

inline size_t packed_bytes32(int tokens, int cols) { return tokens * Record32(cols).stride; }
inline size_t packed_bytes_float(int tokens, int cols) { return tokens * float_stride(cols); }

}  // namespace
}  // namespace tessera
