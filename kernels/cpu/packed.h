// Private to the x86 tiers: layouts of packed activations, one record per token, and loads of single values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

constexpr int kRowTokens = 3;  // up to here raw rows are multiplied directly, above panels are unpacked

constexpr size_t padded(size_t bytes) { return (bytes + 63) & ~static_cast<size_t>(63); }
// An odd multiple of 64, so that the rows of a tile fall into different cache sets.
constexpr size_t record_stride(size_t bytes) { return padded(bytes) | 64; }

// Q8_256: int8 q[cols] | int16 sums[cols / 16] | int16 sums[cols / 32] | float scale[cols / 256].
//
// For panels the values are ordered as a tier's products want them, and the sums per 16 are stored (A0, B0, A1, B1) for
// each 64 values, of which A is the first half and B the second. For rows everything is in its natural order.
//  - vpmaddubsw tiers: 16 groups of 4 per 64 values, group i = 2i, 2i + 1, 32 + 2i, 33 + 2i, so that the 16-bit halves
//  of
//    a lane belong to A and B and one vpmaddwd scales both.
//  - vpdpbusd tier: natural order, because a lane sums all its four products; int32 -sums[cols / 16], ordered as the
//    int16 sums, follow the scales.
struct Record256 {
  size_t sums16, sums32, scales, negative_sums, stride, stride_with_negative_sums;  // byte offsets and strides
  explicit constexpr Record256(int cols)
      : sums16(cols),
        sums32(sums16 + cols / 8),
        scales(sums32 + cols / 16),
        negative_sums(scales + cols / 64),
        stride(record_stride(negative_sums)),
        stride_with_negative_sums(record_stride(negative_sums + cols / 4)) {}
};

// Q8_32: int8 q[cols] | float scale[cols / 32] | float scale * sum[cols / 32] | int16 { sum0, sum1 }[cols / 32] |
// int32 -sum[cols / 32]. sum0 counts the values whose index mod 4 is 0 or 1 and sum1 the others, as they fall on the
// 16-bit halves of a lane.
struct Record32 {
  size_t scales, sums, pair_sums, negative_sums, stride;
  explicit constexpr Record32(int cols)
      : scales(cols),
        sums(scales + cols / 8),
        pair_sums(sums + cols / 8),
        negative_sums(pair_sums + cols / 8),
        stride(record_stride(negative_sums + cols / 8)) {}
};

// F32: float x[cols].
inline size_t float_stride(int cols) { return record_stride(static_cast<size_t>(cols) * sizeof(float)); }

inline int32_t load32(const void* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}
inline float loadf(const void* p) {
  float value;
  std::memcpy(&value, p, 4);
  return value;
}

}  // namespace
}  // namespace tessera
