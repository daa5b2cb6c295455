// Unpacks the grids, at compile time.
#include "grids.h"

#include <bit>

#include "../cuda/codebook_grids.cuh"

namespace tessera {
namespace {

// Values of kBits each to bytes.
template <class Word, int kBits, int kCount, int kValues>
constexpr Grid<Word, kCount> unpack(const unsigned short (&packed)[kCount], const signed char (&values)[kValues]) {
  Grid<Word, kCount> out{};
  for (int i = 0; i < kCount; ++i)
    for (unsigned k = 0; k < sizeof(Word); ++k) {
      const signed char value = values[packed[i] >> kBits * k & ((1 << kBits) - 1)];
      out.at[i] |= static_cast<Word>(static_cast<uint8_t>(value)) << 8 * k;
    }
  return out;
}

constexpr Grid<uint64_t, 128> signs() {
  Grid<uint64_t, 128> out{};
  for (unsigned i = 0; i < 128; ++i) {
    const unsigned bits = i | (std::popcount(i) & 1u) << 7;
    for (unsigned k = 0; k < 8; ++k) out.at[i] |= static_cast<uint64_t>(bits >> k & 1 ? 0xff : 1) << 8 * k;
  }
  return out;
}

constexpr signed char kValues1[] = {-8, 0, 8}, kValues2[] = {8, 25, 43};
constexpr signed char kValues3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62}, kValues3S[] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constinit const Grid<uint64_t, 256> kGridIq2Xxs = unpack<uint64_t, 2>(kIq2Xxs, kValues2);
constinit const Grid<uint64_t, 512> kGridIq2Xs = unpack<uint64_t, 2>(kIq2Xs, kValues2);
constinit const Grid<uint64_t, 1024> kGridIq2S = unpack<uint64_t, 2>(kIq2S, kValues2);
constinit const Grid<uint64_t, 2048> kGridIq1 = unpack<uint64_t, 2>(kIq1, kValues1);
constinit const Grid<uint32_t, 256> kGridIq3Xxs = unpack<uint32_t, 3>(kIq3Xxs, kValues3Xxs);
constinit const Grid<uint32_t, 512> kGridIq3S = unpack<uint32_t, 3>(kIq3S, kValues3S);
constinit const Grid<uint64_t, 128> kSigns = signs();

}  // namespace tessera
