// Private to the x86 tiers: how blocks of codebook types become panels of the K types' layout (matmul_panel_k.h).
//
// Each row is decoded as for few tokens (matmul_rows_codebook.h) and then transposed. Quants within ±16 become unsigned
// 5-bit ones with a centre, for the K types' tiles. Wider ones have tiles of their own in each tier.
#pragma once
#include "matmul_panel_k.h"
#include "matmul_rows_grid.h"

namespace tessera {
namespace {

// One block of kLanes rows, signed bytes: emit(g, d, a, b) for the groups' steps, scales (A0, B0), (A1, B1) per group.
template <class Row, class Emit>
inline void decode_rows(const uint8_t* const* rows, size_t block, float* d, vi* scales, Emit&& emit) {
  alignas(64) uint8_t q[kLanes][256];
  alignas(64) int16_t words[kLanes][16];
  const uint8_t *q_rows[kLanes], *word_rows[kLanes];
  for (int r = 0; r < kLanes; ++r) {
    Row row;
    row.begin(rows[r] + block);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) _mm256_store_si256(reinterpret_cast<__m256i*>(q[r] + 32 * j), row.values(j));
    _mm256_store_si256(reinterpret_cast<__m256i*>(words[r]), row.scale_words);
    d[r] = row.d;
    q_rows[r] = q[r], word_rows[r] = reinterpret_cast<const uint8_t*>(words[r]);
  }
  vi pairs[8];
  load_x8(word_rows, 0, pairs);
  for (int g = 0; g < 4; ++g) {
    scales[2 * g] = even_halves(pairs[2 * g], left32(pairs[2 * g + 1], 16));
    scales[2 * g + 1] = even_halves(right32(pairs[2 * g], 16), pairs[2 * g + 1]);
    vi a[8], b[8];
    load_x8(q_rows, 64 * g, a);
    load_x8(q_rows, 64 * g + 32, b);
    for (int step = 0; step < 8; ++step) emit(g, step, a[step], b[step]);
  }
}

template <class Row>
struct NarrowCodebook {
  static constexpr QuantType kType = Row::kType;
  static constexpr int kBytes = Row::kBytes, kSubBlock = 16, kMinBlock = 0, kCentre = 4;
  static constexpr bool kShortSums = true;
  template <class Order>
  static void unpack(const uint8_t* const* rows, size_t block, int lane, PanelK& panel) {
    const vi centre = all8(-16);
    vi scales[8];
    decode_rows<Row>(rows, block, panel.d + lane, scales, [&](int g, int d, vi a, vi b) {
      Order::emit(panel, lane, g, d, sub8(a, centre), sub8(b, centre));
    });
    for (int j = 0; j < 8; ++j) store_i(panel.scales[j][lane], scales[j]);
  }
};

}  // namespace
}  // namespace tessera
