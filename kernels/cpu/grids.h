// The grids of the IQ types as bytes, and the signs that seven bits stand for. Plain data.
#pragma once
#include <cstdint>

namespace tessera {

template <class Word, int kCount>
struct Grid {
  Word at[kCount];
};

extern const Grid<uint64_t, 256> kGridIq2Xxs;  // eight values from 8, 25, 43
extern const Grid<uint64_t, 512> kGridIq2Xs;
extern const Grid<uint64_t, 1024> kGridIq2S;
extern const Grid<uint64_t, 2048> kGridIq1;    // -1, 0, 1, times eight
extern const Grid<uint32_t, 256> kGridIq3Xxs;  // four values from 4 … 62
extern const Grid<uint32_t, 512> kGridIq3S;    // four odd values up to 15
// Eight times 1 or -1: where bit i is set, value i is negative; the eighth makes the number of negative ones even.
extern const Grid<uint64_t, 128> kSigns;

}  // namespace tessera
