// Private to the x86 tiers: the way from rows to panels and tiles, for whatever lanes were included before.
//
// 2 x kLanes rows are unpacked to bytes in scratch, a chunk of columns at a time, so that a row sits in each 32-bit
// lane; tokens are broadcast. A tile is one panel x up to 6 tokens, its 12 accumulators live in registers.
#pragma once
#include "matmul.h"
#include "packed.h"

namespace tessera {
namespace {

constexpr int kPanelRows = 2 * kLanes;
constexpr int kTileTokens = 6;
// A batch is cut into blocks of tokens whose packed chunk stays in the second-level cache.
constexpr int kBlockTokens = 128;
constexpr size_t kBlockBytes = 192 << 10;

inline vi broadcast32(const void* p) { return all32(load32(p)); }
inline vf broadcastf(const void* p) { return all_f(loadf(p)); }

// Rows of a panel; a short panel repeats its last row, and only `count` results are stored.
struct PanelRows {
  const uint8_t* row[kPanelRows];
  int count;
  PanelRows(const MatmulTask& task, int first)
      : count(task.rows - first < kPanelRows ? task.rows - first : kPanelRows) {
    for (int r = 0; r < kPanelRows; ++r)
      row[r] = task.weights + static_cast<size_t>(first + (r < count ? r : count - 1)) * task.row_bytes;
  }
};

inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
// 16 bytes at `offset` of kLanes rows to 4 vectors, 32 bytes to 8.
inline void load_x4(const uint8_t* const* rows, size_t offset, vi* out) {
  __m128i row[kLanes];
  for (int j = 0; j < kLanes; ++j) row[j] = load128(rows[j] + offset);
  transpose(row, out);
}
inline void load_x8(const uint8_t* const* rows, size_t offset, vi* out) {
  load_x4(rows, offset, out);
  load_x4(rows, offset + 16, out + 4);
}
// The half at `offset` of each row, as floats; the dword; the low and the high halves of dwords.
inline vf load_halves(const uint8_t* const* rows, size_t offset) {
  alignas(32) uint16_t halves[kLanes];
  for (int r = 0; r < kLanes; ++r) std::memcpy(&halves[r], rows[r] + offset, 2);
  Halves v;
  std::memcpy(&v, halves, sizeof v);
  return to_float(v);
}
inline vi load_dwords(const uint8_t* const* rows, size_t offset) {
  alignas(64) int32_t words[kLanes];
  for (int r = 0; r < kLanes; ++r) words[r] = load32(rows[r] + offset);
  return load_i(words);
}
inline vf halves_low(vi v) { return to_float(low_words(v)); }
inline vf halves_high(vi v) { return to_float(low_words(right32(v, 16))); }

inline vi bits(vi v, int shift, int mask) { return and_i(right32(v, shift), all8(mask)); }
// Bits from `from` on, moved to bit `to`; the mask is given at the target.
inline vi move_bits(vi v, int from, int to, int mask) {
  return and_i(from > to ? right32(v, from - to) : left32(v, to - from), all8(mask));
}

// Sums of a tile so far, from the output of the chunk before; zero for the first chunk.
inline void load_sums(const float* out, int count, bool first, vf* sums) {
  if (first) {
    sums[0] = sums[1] = zero_f();
  } else if (count == kPanelRows) {
    sums[0] = load_f_any(out), sums[1] = load_f_any(out + kLanes);
  } else {
    alignas(64) float copy[kPanelRows] = {};
    std::memcpy(copy, out, static_cast<size_t>(count) * sizeof(float));
    sums[0] = load_f(copy), sums[1] = load_f(copy + kLanes);
  }
}
inline void store_sums(float* out, int count, const vf* sums) {
  if (count == kPanelRows) {
    store_f_any(out, sums[0]), store_f_any(out + kLanes, sums[1]);
  } else {
    alignas(64) float copy[kPanelRows];
    store_f(copy, sums[0]), store_f(copy + kLanes, sums[1]);
    std::memcpy(out, copy, static_cast<size_t>(count) * sizeof(float));
  }
}

// A tile's place: `blocks` unpacked blocks from `first_block` of the columns, T tokens from `packed` on.
struct Tile {
  int blocks, first_block;
  const uint8_t* packed;
  int cols;
  float* out;
  ptrdiff_t out_stride;
  int rows;
};

// Chunk [begin, begin + count) blocks of a panel against tokens [first, last). Meanwhile the raw bytes at `ahead` of
// each row, which are next, and the next tile's results so far travel towards the cache.
template <class Kernel>
void multiply_panel(const MatmulTask& task, size_t stride, int first_row, int begin, int count, int first, int last,
                    ptrdiff_t ahead) {
  typename Kernel::Panel* panel = reinterpret_cast<typename Kernel::Panel*>(task.scratch);
  const PanelRows rows(task, first_row);
  for (int b = 0; b < count; ++b)
    for (int half = 0; half < 2; ++half)
      Kernel::unpack(rows.row + half * kLanes, static_cast<size_t>(begin + b) * Kernel::kBytes, half, panel[b]);
  for (int r = 0; r < rows.count; ++r)
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(count) * Kernel::kBytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(rows.row[r]) + ahead + i), _MM_HINT_T1);
  const int tokens = last - first, tiles = (tokens + kTileTokens - 1) / kTileTokens;
  for (int i = 0; i < tiles; ++i) {  // tiles differ by at most one token
    const int t = first + i * tokens / tiles, n = first + (i + 1) * tokens / tiles - t;
    if (i + 1 < tiles)  // a next tile has no fewer tokens than this one
      for (int j = 0; j < n; ++j)
        _mm_prefetch(reinterpret_cast<const char*>(task.out + (t + n + j) * task.out_stride + first_row), _MM_HINT_T1);
    const Tile tile{
        count,           begin,     task.packed + t * stride, task.cols, task.out + t * task.out_stride + first_row,
        task.out_stride, rows.count};
    switch (n) {
      case 1:
        Kernel::template multiply<1>(panel, tile);
        break;
      case 2:
        Kernel::template multiply<2>(panel, tile);
        break;
      case 3:
        Kernel::template multiply<3>(panel, tile);
        break;
      case 4:
        Kernel::template multiply<4>(panel, tile);
        break;
      case 5:
        Kernel::template multiply<5>(panel, tile);
        break;
      default:
        Kernel::template multiply<6>(panel, tile);
        break;
    }
  }
}

// Kernel: kValues and kBytes of one block; kChunk, blocks per chunk; Panel, one unpacked block;
//   unpack(rows, offset, half, panel) for kLanes rows; multiply<T>(panel, tile).
template <class Kernel>
void multiply_panels(const MatmulTask& task, size_t stride) {
  const int blocks = task.cols / Kernel::kValues, chunk = Kernel::kChunk;
  const int parts = (task.tokens + kBlockTokens - 1) / kBlockTokens;
  const auto size = [&](int begin) { return blocks - begin < chunk ? blocks - begin : chunk; };
  const ptrdiff_t next_panel = static_cast<ptrdiff_t>(kPanelRows * task.row_bytes);
  for (int part = 0; part < parts; ++part) {
    const int first = static_cast<int>(static_cast<int64_t>(part) * task.tokens / parts);
    const int last = static_cast<int>(static_cast<int64_t>(part + 1) * task.tokens / parts);
    if ((last - first) * stride <= kBlockBytes) {  // all columns fit: weights are read in order
      for (int row = 0; row < task.rows; row += kPanelRows)
        for (int begin = 0; begin < blocks; begin += chunk) {
          const ptrdiff_t next_chunk = static_cast<ptrdiff_t>(begin + chunk) * Kernel::kBytes;
          multiply_panel<Kernel>(task, stride, row, begin, size(begin), first, last,
                                 begin + chunk < blocks ? next_chunk : next_panel);
        }
    } else {
      for (int begin = 0; begin < blocks; begin += chunk)
        for (int row = 0; row < task.rows; row += kPanelRows)
          multiply_panel<Kernel>(task, stride, row, begin, size(begin), first, last,
                                 next_panel + static_cast<ptrdiff_t>(begin) * Kernel::kBytes);
    }
  }
}

template <class Kernel>
size_t panel_scratch_bytes(int) {
  return Kernel::kChunk * sizeof(typename Kernel::Panel);
}

}  // namespace
}  // namespace tessera
