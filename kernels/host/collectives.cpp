// What the lanes of a warp do together, carried out by the last of them to arrive. Never instrumented, as fibers.cpp.
#include "fibers.h"

namespace host_cuda {
namespace {

struct Shuffle {
  uint64_t value, result;
  int source;
};
void carry_out_shuffle(void** lanes, unsigned mask) {
  for (int l = 0; l < kWarp; ++l) {
    if (!(mask >> l & 1)) continue;
    auto* const mine = static_cast<Shuffle*>(lanes[l]);
    if (mine->source < 0 || mine->source >= kWarp || !(mask >> mine->source & 1))
      return note_error("a shuffle reads from an inactive lane");
    mine->result = static_cast<const Shuffle*>(lanes[mine->source])->value;
  }
}

void carry_out_ballot(void** lanes, unsigned mask) {
  unsigned all = 0;
  for (int l = 0; l < kWarp; ++l)
    if (mask >> l & 1) all |= *static_cast<unsigned*>(lanes[l]) << l;
  for (int l = 0; l < kWarp; ++l)
    if (mask >> l & 1) *static_cast<unsigned*>(lanes[l]) = all;
}

struct MmaS8 {
  int a[4], b[2], d[4];
};
// Element (row, k) of A lies in lane row % 8 * 4 + k % 16 / 4, register (row >= 8) + 2 * (k >= 16), byte k % 4;
// (k, column) of B in lane column * 4 + k % 16 / 4, register k >= 16; D in lane row % 8 * 4 + column / 2.
template <int kDepth>
void carry_out_mma_s8(void** lanes, unsigned mask) {
  if (mask != ~0u) return note_error("a tensor-core product with an inactive lane");
  const auto at = [&](int lane) { return static_cast<MmaS8*>(lanes[lane]); };
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int sum = 0;
      for (int k = 0; k < kDepth; ++k) {
        const int a = at(row % 8 * 4 + k % 16 / 4)->a[(row >= 8) + 2 * (k >= 16)];
        const int b = at(column * 4 + k % 16 / 4)->b[k >= 16];
        sum += static_cast<int8_t>(a >> k % 4 * 8) * static_cast<int8_t>(b >> k % 4 * 8);
      }
      at(row % 8 * 4 + column / 2)->d[(row >= 8) * 2 + column % 2] += sum;
    }
}

struct MmaF16 {
  uint32_t a[4], b[2];
  float d[4];
};
float half_value(uint32_t pair, int which) {
  const uint32_t h = pair >> 16 * which & 0xffff, exponent = h >> 10 & 31;
  const float fraction = static_cast<float>(h & 1023);
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return h & 1023 ? __builtin_nanf("") : sign * __builtin_inff();
  if (exponent == 0) return sign * fraction * 0x1p-24f;
  return sign * (1024 + fraction) * static_cast<float>(1u << exponent) * 0x1p-25f;
}
void carry_out_mma_f16(void** lanes, unsigned mask) {
  if (mask != ~0u) return note_error("a tensor-core product with an inactive lane");
  const auto at = [&](int lane) { return static_cast<MmaF16*>(lanes[lane]); };
  float a[16][16], b[16][8];
  for (int k = 0; k < 16; ++k) {
    const int lane = k % 8 / 2;
    for (int row = 0; row < 16; ++row)
      a[row][k] = half_value(at(row % 8 * 4 + lane)->a[(row >= 8) + 2 * (k >= 8)], k % 2);
    for (int column = 0; column < 8; ++column) b[k][column] = half_value(at(column * 4 + lane)->b[k >= 8], k % 2);
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      at(row % 8 * 4 + column / 2)->d[(row >= 8) * 2 + column % 2] += sum;
    }
}

}  // namespace

uint64_t shuffle(unsigned mask, uint64_t value, int source_lane) {
  Shuffle mine{value, 0, source_lane};
  meet(mask, &mine, carry_out_shuffle);
  return mine.result;
}

unsigned ballot(unsigned mask, int predicate) {
  unsigned vote = predicate != 0;
  meet(mask, &vote, carry_out_ballot);
  return vote;
}

void mma_s8(int* d, const int* a, const int* b, int k) {
  MmaS8 mine{};
  for (int i = 0; i < k / 8; ++i) mine.a[i] = a[i];
  for (int i = 0; i < k / 16; ++i) mine.b[i] = b[i];
  for (int i = 0; i < 4; ++i) mine.d[i] = d[i];
  meet(~0u, &mine, k == 16 ? carry_out_mma_s8<16> : carry_out_mma_s8<32>);
  for (int i = 0; i < 4; ++i) d[i] = mine.d[i];
}

void mma_f16(float* d, const uint32_t* a, const uint32_t* b) {
  MmaF16 mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {d[0], d[1], d[2], d[3]}};
  meet(~0u, &mine, carry_out_mma_f16);
  for (int i = 0; i < 4; ++i) d[i] = mine.d[i];
}

}  // namespace host_cuda
