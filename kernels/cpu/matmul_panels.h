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
// Rows up to this long are fetched a whole panel ahead, as one stream; of longer ones that would take too much cache.
constexpr size_t kShortRowBytes = 4 << 10;

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
  const auto half = [&](int r) {
    uint16_t value;
    std::memcpy(&value, rows[r] + offset, sizeof value);
    return value;
  };
  // Straight into vectors: of halves in an array GCC may store two bytes and load four, which waits for the store.
  const auto eight = [&](int r) {
    __m128i low = _mm_setzero_si128(), high = _mm_setzero_si128();
    low = _mm_insert_epi16(low, half(r), 0), high = _mm_insert_epi16(high, half(r + 4), 0);
    low = _mm_insert_epi16(low, half(r + 1), 1), high = _mm_insert_epi16(high, half(r + 5), 1);
    low = _mm_insert_epi16(low, half(r + 2), 2), high = _mm_insert_epi16(high, half(r + 6), 2);
    low = _mm_insert_epi16(low, half(r + 3), 3), high = _mm_insert_epi16(high, half(r + 7), 3);
    return _mm_unpacklo_epi64(low, high);
  };
  __m128i eights[kLanes / 8];
  for (int i = 0; i < kLanes / 8; ++i) eights[i] = eight(8 * i);
  Halves v;
  std::memcpy(&v, eights, sizeof v);
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

// What kLanes of the rows that are read next hold, on its way to the second-level cache. A part of it is asked for with
// each half of a group of blocks in work: memory delivers while there is arithmetic to do, and all that is asked for at
// once can be under way at once. May point past the weights: only a hint.
template <class Kernel>
struct Ahead {
  static constexpr int kGroup = Kernel::kValues < 256 ? 256 / Kernel::kValues : 1;  // blocks
  static constexpr int kBytes = kGroup * Kernel::kBytes;
  uintptr_t at;
  size_t row_bytes;
  bool side_by_side;  // in the order in which they lie, whole rows; or the same columns of each
  // Inlined: of a function that does nothing but prefetch GCC drops the calls.
  __attribute__((always_inline)) void fetch(int group, int half) const {
    if (side_by_side) {
      fetch_lines<kLanes * kBytes / 2>(at + static_cast<size_t>(2 * group + half) * (kLanes * kBytes / 2));
    } else {
      for (int r = half * kLanes / 2; r < (half + 1) * kLanes / 2; ++r)
        fetch_lines<kBytes>(at + static_cast<size_t>(r) * row_bytes + static_cast<size_t>(group) * kBytes);
    }
  }
  template <int kCount>
  static __attribute__((always_inline)) void fetch_lines(uintptr_t from) {
    for (int i = 0; i < kCount; i += 64) _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T1);
  }
};

// A tile's place: `blocks` unpacked blocks from `first_block` of the columns, T tokens from `packed` on.
struct Tile {
  int blocks, first_block;
  const uint8_t* packed;
  int cols;
  float* out;
  ptrdiff_t out_stride;
  int rows;
};

template <class Kernel>
void multiply_tile(const typename Kernel::Panel* panel, int tokens, const Tile& tile) {
  switch (tokens) {
    case 1:
      return Kernel::template multiply<1>(panel, tile);
    case 2:
      return Kernel::template multiply<2>(panel, tile);
    case 3:
      return Kernel::template multiply<3>(panel, tile);
    case 4:
      return Kernel::template multiply<4>(panel, tile);
    case 5:
      return Kernel::template multiply<5>(panel, tile);
    default:
      return Kernel::template multiply<6>(panel, tile);
  }
}

// Chunk [begin, begin + count) blocks of a panel against tokens [first, last). Meanwhile what is read next travels
// towards the cache, one half of its rows during the unpacking and the other during the first tile, which is multiplied
// group by group for that; and so do the next tile's results so far.
template <class Kernel>
void multiply_panel(const MatmulTask& task, size_t stride, int first_row, int begin, int count, int first, int last,
                    Ahead<Kernel> ahead) {
  typename Kernel::Panel* panel = reinterpret_cast<typename Kernel::Panel*>(task.scratch);
  const PanelRows rows(task, first_row);
  constexpr int kGroup = Ahead<Kernel>::kGroup;
  const auto group_size = [&](int b) { return count - b < kGroup ? count - b : kGroup; };
  for (int b = 0; b < count; b += kGroup)
    for (int half = 0; half < 2; ++half) {
      ahead.fetch(b / kGroup, half);
      for (int i = b; i < b + group_size(b); ++i)
        Kernel::unpack(rows.row + half * kLanes, static_cast<size_t>(begin + i) * Kernel::kBytes, half, panel[i]);
    }
  ahead.at += kLanes * task.row_bytes;
  const int tokens = last - first, tiles = (tokens + kTileTokens - 1) / kTileTokens;
  for (int i = 0; i < tiles; ++i) {  // tiles differ by at most one token
    const int t = first + i * tokens / tiles, n = first + (i + 1) * tokens / tiles - t;
    if (i + 1 < tiles)  // a next tile has no fewer tokens than this one
      for (int j = 0; j < n; ++j)
        _mm_prefetch(reinterpret_cast<const char*>(task.out + (t + n + j) * task.out_stride + first_row), _MM_HINT_T1);
    Tile tile{
        count,           begin,     task.packed + t * stride, task.cols, task.out + t * task.out_stride + first_row,
        task.out_stride, rows.count};
    if (i > 0) {
      multiply_tile<Kernel>(panel, n, tile);
      continue;
    }
    for (int b = 0; b < count; b += kGroup) {
      for (int half = 0; half < 2; ++half) ahead.fetch(b / kGroup, half);
      tile.first_block = begin + b, tile.blocks = group_size(b);
      multiply_tile<Kernel>(panel + b, n, tile);
    }
  }
}

// Kernel: kValues and kBytes of one block; kChunk, blocks per chunk at most; Panel, one unpacked block;
//   unpack(rows, offset, half, panel) for kLanes rows; multiply<T>(panel, tile).
template <class Kernel>
void multiply_panels(const MatmulTask& task, size_t stride) {
  const int blocks = task.cols / Kernel::kValues, chunks = (blocks + Kernel::kChunk - 1) / Kernel::kChunk;
  const int parts = (task.tokens + kBlockTokens - 1) / kBlockTokens;
  const auto begin = [&](int chunk) { return static_cast<int>(static_cast<int64_t>(chunk) * blocks / chunks); };
  for (int part = 0; part < parts; ++part) {
    const int first = static_cast<int>(static_cast<int64_t>(part) * task.tokens / parts);
    const int last = static_cast<int>(static_cast<int64_t>(part + 1) * task.tokens / parts);
    const bool in_order = (last - first) * stride <= kBlockBytes;  // all columns fit: weights are read in order
    const auto multiply = [&](int row, int chunk) {
      const auto at = [&](int r) { return reinterpret_cast<uintptr_t>(task.weights) + r * task.row_bytes; };
      const uintptr_t next = row + kPanelRows < task.rows || task.next == nullptr
                                 ? at(row + kPanelRows)
                                 : reinterpret_cast<uintptr_t>(task.next);
      const auto bytes = [&](int c) { return static_cast<size_t>(begin(c)) * Kernel::kBytes; };
      Ahead<Kernel> ahead{0, task.row_bytes, in_order && task.row_bytes <= kShortRowBytes};
      if (ahead.side_by_side)  // of the next panel what this chunk is of the present one
        ahead.at = next + kLanes * bytes(chunk);
      else if (in_order && chunk + 1 < chunks)
        ahead.at = at(row) + bytes(chunk + 1);
      else
        ahead.at = next + (in_order ? 0 : bytes(chunk));
      multiply_panel<Kernel>(task, stride, row, begin(chunk), begin(chunk + 1) - begin(chunk), first, last, ahead);
    };
    if (in_order) {
      for (int row = 0; row < task.rows; row += kPanelRows)
        for (int chunk = 0; chunk < chunks; ++chunk) multiply(row, chunk);
    } else {
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (int row = 0; row < task.rows; row += kPanelRows) multiply(row, chunk);
    }
  }
}

template <class Kernel>
size_t panel_scratch_bytes(int) {
  return Kernel::kChunk * sizeof(typename Kernel::Panel);
}

}  // namespace
}  // namespace tessera
