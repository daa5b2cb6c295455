// The activations of one batch, packed in every format that some matrices need.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "arena.h"
#include "matmul.h"

namespace tessera {

class Packing {
 public:
  Packing(const MatmulTable& table, int cols) : table_(table), cols_(cols) {}

  void require(ActivationFormat format) {
    used_[static_cast<size_t>(format)] = true;
    tile_ = std::lcm(tile_, table_.activations[static_cast<int>(format)].tile);
  }
  // Token ranges of `pack` start and end at multiples of this, except at the end of the batch.
  int tile() const { return tile_; }
  size_t bytes(int tokens) const {
    size_t total = 0;
    for (int f = 0; f < kActivationFormatCount; ++f) total += format_bytes(f, tokens);
    return total;
  }
  // A batch of n tokens takes at most bytes_per_batch() + n * bytes_per_token(): how small ones are padded is looked
  // up, large ones grow evenly.
  size_t bytes_per_token() const { return (bytes(64 * tile_) + 64 * static_cast<size_t>(tile_) - 1) / (64 * tile_); }
  size_t bytes_per_batch() const {
    size_t most = 0;
    for (int n = 1; n <= 64 * tile_; ++n) {
      const size_t even = static_cast<size_t>(n) * bytes_per_token(), taken = bytes(n);
      if (taken > even) most = std::max(most, taken - even);
    }
    return most + 64;
  }
  // Where a format lies in the memory that holds them all.
  const uint8_t* find(const uint8_t* memory, ActivationFormat format, int tokens) const {
    for (int f = 0; f < static_cast<int>(format); ++f) memory += format_bytes(f, tokens);
    return memory;
  }
  void pack(const float* x, ptrdiff_t stride, const int32_t* index, int tokens, int first, int last,
            uint8_t* memory) const {
    for (int f = 0; f < kActivationFormatCount; ++f) {
      if (!used_[static_cast<size_t>(f)]) continue;
      table_.activations[f].pack(x, stride, index, tokens, first, last, cols_, memory);
      memory += format_bytes(f, tokens);
    }
  }

 private:
  size_t format_bytes(int format, int tokens) const {
    return used_[static_cast<size_t>(format)] ? aligned_size(table_.activations[format].packed_bytes(tokens, cols_))
                                              : 0;
  }

  const MatmulTable& table_;
  int cols_, tile_ = 1;
  std::array<bool, kActivationFormatCount> used_{};
};

}  // namespace tessera
