// Private to the AVX2 tier: layouts and helpers shared by its files. Everything is in an anonymous namespace, so that no
// inline function compiled for AVX2 can win at link time.
//
// Two ways through a product, chosen by the number of tokens:
//  - rows (tokens <= kRowTokens): each raw row is decoded in registers and multiplied with all tokens at once;
//    activations keep their order. Decode runs here, at the speed of memory.
//  - panels: 16 rows are unpacked to bytes in scratch, a chunk of columns at a time, so that a row sits in each
//    32-bit lane; tokens are broadcast. The tile of 16 rows x 6 tokens keeps 12 int16 accumulators in registers.
#pragma once
#include <immintrin.h>

#include <cstring>

#include "matmul.h"

namespace tessera {

void fill_avx2_k(MatmulTable& table);
void fill_avx2_32(MatmulTable& table);
void fill_avx2_float(MatmulTable& table);

namespace {

constexpr int kRowTokens = 3;   // up to here rows are cheaper than unpacking panels
constexpr int kPanelRows = 16;  // two vectors of 8 lanes
constexpr int kTileTokens = 6;

constexpr size_t padded(size_t bytes) { return (bytes + 63) & ~static_cast<size_t>(63); }
// An odd multiple of 64, so that the rows of a tile fall into different cache sets.
constexpr size_t record_stride(size_t bytes) { return padded(bytes) | 64; }

// ---- packed activations: one record per token --------------------------------------------------------------------
//
// Q8_256: int8 q[cols] | int16 sums[cols / 16] | int16 sums[cols / 32] | float scale[cols / 256].
// For panels each 64 values are stored as 16 groups of 4: values 2i, 2i + 1, 32 + 2i, 33 + 2i, so that the 16-bit halves
// of a lane belong to the sub-blocks A (first 32) and B (second 32) and one vpmaddwd scales both; the sums per 16 are
// stored (A0, B0, A1, B1) accordingly. For rows everything is in its natural order.
struct Record256 {
  size_t sums16, sums32, scales, stride;  // byte offsets
  explicit constexpr Record256(int cols)
      : sums16(cols), sums32(cols + cols / 8), scales(cols + cols / 8 + cols / 16),
        stride(record_stride(cols + cols / 8 + cols / 16 + cols / 64)) {}
};

// Q8_32: int8 q[cols] | float scale[cols / 32] | float scale * sum[cols / 32] | int16 { sum0, sum1 }[cols / 32], where
// sum0 counts the values whose index mod 4 is 0 or 1 and sum1 the others, as they fall on the 16-bit halves of a lane.
struct Record32 {
  size_t scales, sums, pair_sums, stride;
  explicit constexpr Record32(int cols)
      : scales(cols), sums(cols + cols / 8), pair_sums(cols + cols / 4),
        stride(record_stride(cols + cols / 4 + cols / 8)) {}
};

inline constexpr size_t kFloatPad = 16;  // F32 records: float x[cols], stride in bytes
inline size_t float_stride(int cols) { return record_stride(static_cast<size_t>(cols) * sizeof(float)); }

// ---- small helpers -----------------------------------------------------------------------------------------------

inline int32_t load32(const void* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}
inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline float loadf(const void* p) {
  float value;
  std::memcpy(&value, p, 4);
  return value;
}
inline __m256i broadcast32(const void* p) { return _mm256_set1_epi32(load32(p)); }
inline __m256 broadcastf(const void* p) { return _mm256_set1_ps(loadf(p)); }
inline __m128 half4(const void* p) { return _mm_cvtph_ps(_mm_loadl_epi64(static_cast<const __m128i*>(p))); }
inline float half1(const void* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return _cvtsh_ss(half);
}

inline float sum8(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// Keeps an accumulator in its register: without it GCC reassociates the chain of additions and spills.
#define TESSERA_KEEP(a, b) __asm__ volatile("" : "+x"(a), "+x"(b))

// ---- transposition: one row per 32-bit lane ----------------------------------------------------------------------

// 16 bytes at `offset` of 8 rows to 4 vectors: out[i] lane r = dword i of row r.
inline void transpose_8x4(const __m128i* row, __m256i* out) {
  __m256i z[4];
  for (int j = 0; j < 4; ++j) z[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(row[j]), row[j + 4], 1);
  const __m256i a = _mm256_unpacklo_epi32(z[0], z[1]), b = _mm256_unpackhi_epi32(z[0], z[1]);
  const __m256i c = _mm256_unpacklo_epi32(z[2], z[3]), d = _mm256_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm256_unpacklo_epi64(a, c), out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d), out[3] = _mm256_unpackhi_epi64(b, d);
}
inline void load_8x4(const uint8_t* const* rows, size_t offset, __m256i* out) {
  __m128i row[8];
  for (int j = 0; j < 8; ++j) row[j] = load128(rows[j] + offset);
  transpose_8x4(row, out);
}
// 32 bytes of 8 rows to 8 vectors.
inline void load_8x8(const uint8_t* const* rows, size_t offset, __m256i* out) {
  load_8x4(rows, offset, out);
  load_8x4(rows, offset + 16, out + 4);
}
// The half at `offset` of 8 rows, as floats.
inline __m256 load_halves(const uint8_t* const* rows, size_t offset) {
  const auto at = [&](int r) { uint16_t h; std::memcpy(&h, rows[r] + offset, 2); return static_cast<short>(h); };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}
// Low and high 16 bits of 8 dwords, as floats.
inline __m256 halves_low(__m256i v) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
inline __m256 halves_high(__m256i v) { return halves_low(_mm256_srli_epi32(v, 16)); }

// ---- driver of the panels ----------------------------------------------------------------------------------------

// Rows of a panel; a short panel repeats its last row, and only `count` results are stored.
struct PanelRows {
  const uint8_t* row[kPanelRows];
  int count;
  PanelRows(const MatmulTask& task, int first) : count(task.rows - first < kPanelRows ? task.rows - first : kPanelRows) {
    for (int r = 0; r < kPanelRows; ++r)
      row[r] = task.weights + static_cast<size_t>(first + (r < count ? r : count - 1)) * task.row_bytes;
  }
};

// Sums of a tile so far, from the output of the chunk before; zero for the first chunk.
inline void load_sums(const float* out, int count, bool first, __m256* sums) {
  if (first) {
    sums[0] = sums[1] = _mm256_setzero_ps();
  } else if (count == kPanelRows) {
    sums[0] = _mm256_loadu_ps(out), sums[1] = _mm256_loadu_ps(out + 8);
  } else {
    alignas(32) float copy[kPanelRows] = {};
    std::memcpy(copy, out, count * sizeof(float));
    sums[0] = _mm256_load_ps(copy), sums[1] = _mm256_load_ps(copy + 8);
  }
}
inline void store_sums(float* out, int count, const __m256* sums) {
  if (count == kPanelRows) {
    _mm256_storeu_ps(out, sums[0]), _mm256_storeu_ps(out + 8, sums[1]);
  } else {
    alignas(32) float copy[kPanelRows];
    _mm256_store_ps(copy, sums[0]), _mm256_store_ps(copy + 8, sums[1]);
    std::memcpy(out, copy, count * sizeof(float));
  }
}

// A batch is cut into blocks of tokens whose packed chunk stays in the second-level cache.
constexpr int kBlockTokens = 128;
constexpr size_t kBlockBytes = 192 << 10;

template <class Kernel, int T>
inline void run_tile(const MatmulTask& task, size_t stride, int t, int first_row, int rows, int begin, int count) {
  Kernel::template tile<T>(reinterpret_cast<const typename Kernel::Panel*>(task.scratch), count,
                           task.packed + t * stride, task.cols, begin, task.out + t * task.out_stride + first_row,
                           task.out_stride, rows);
}

// Chunk [begin, begin + count) blocks of 16 rows against tokens [first, last). Meanwhile the raw bytes at `ahead` of
// each row, which are next, travel towards the cache.
template <class Kernel>
void multiply_panel(const MatmulTask& task, size_t stride, int first_row, int begin, int count, int first, int last,
                    ptrdiff_t ahead) {
  typename Kernel::Panel* panel = reinterpret_cast<typename Kernel::Panel*>(task.scratch);
  const PanelRows rows(task, first_row);
  for (int b = 0; b < count; ++b)
    Kernel::unpack(rows.row, static_cast<size_t>(begin + b) * Kernel::kBytes, panel[b]);
  for (int r = 0; r < rows.count; ++r)
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(count) * Kernel::kBytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(rows.row[r]) + ahead + i, _MM_HINT_T1);
  const int tokens = last - first, tiles = (tokens + kTileTokens - 1) / kTileTokens;
  for (int i = 0; i < tiles; ++i) {  // tiles differ by at most one token
    const int t = first + i * tokens / tiles, n = first + (i + 1) * tokens / tiles - t;
    switch (n) {
      case 1: run_tile<Kernel, 1>(task, stride, t, first_row, rows.count, begin, count); break;
      case 2: run_tile<Kernel, 2>(task, stride, t, first_row, rows.count, begin, count); break;
      case 3: run_tile<Kernel, 3>(task, stride, t, first_row, rows.count, begin, count); break;
      case 4: run_tile<Kernel, 4>(task, stride, t, first_row, rows.count, begin, count); break;
      case 5: run_tile<Kernel, 5>(task, stride, t, first_row, rows.count, begin, count); break;
      default: run_tile<Kernel, 6>(task, stride, t, first_row, rows.count, begin, count); break;
    }
  }
}

// Kernel: static constexpr kValues, kBytes (one block), kChunk (blocks per chunk); struct Panel (one unpacked block);
//   unpack(rows, offset, panel) and tile<T>(panel, blocks, packed, cols, first_block, out, out_stride, rows).
template <class Kernel>
void multiply_panels(const MatmulTask& task, size_t stride) {
  const int blocks = task.cols / Kernel::kValues, chunk = Kernel::kChunk;
  const int parts = (task.tokens + kBlockTokens - 1) / kBlockTokens;
  const auto size = [&](int begin) { return blocks - begin < chunk ? blocks - begin : chunk; };
  for (int part = 0; part < parts; ++part) {
    const int first = static_cast<int>(static_cast<int64_t>(part) * task.tokens / parts);
    const int last = static_cast<int>(static_cast<int64_t>(part + 1) * task.tokens / parts);
    if ((last - first) * stride <= kBlockBytes) {  // all columns fit: weights are read in order
      for (int row = 0; row < task.rows; row += kPanelRows)
        for (int begin = 0; begin < blocks; begin += chunk) {
          const bool more = begin + chunk < blocks;
          const ptrdiff_t ahead = more ? static_cast<ptrdiff_t>(begin + chunk) * Kernel::kBytes
                                       : static_cast<ptrdiff_t>(kPanelRows * task.row_bytes);
          multiply_panel<Kernel>(task, stride, row, begin, size(begin), first, last, ahead);
        }
    } else {
      for (int begin = 0; begin < blocks; begin += chunk)
        for (int row = 0; row < task.rows; row += kPanelRows)
          multiply_panel<Kernel>(task, stride, row, begin, size(begin), first, last,
                                 static_cast<ptrdiff_t>(kPanelRows * task.row_bytes + begin * static_cast<size_t>(Kernel::kBytes)));
    }
  }
}

template <class Kernel>
size_t panel_scratch_bytes(int) { return Kernel::kChunk * sizeof(typename Kernel::Panel); }

}  // namespace
}  // namespace tessera
