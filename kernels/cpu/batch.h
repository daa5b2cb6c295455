// The tokens of one run: which token, at which position of which sequence, and where each sequence's KV blocks are.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class Batch {
 public:
  // tokens, positions, sequences: [n], n >= 1; block_tables: [tables, sequence_count, table_blocks], row-major, entries
  // no token needs may be anything; outputs: indices of tokens; slots: [sequence_count, 2], where recurrent layers have
  // each sequence's state (-1: it begins here) and where they leave it, or empty. Throws std::invalid_argument.
  Batch(std::vector<int32_t> tokens, std::vector<int32_t> positions, std::vector<int32_t> sequences,
        std::vector<int32_t> block_tables, int sequence_count, int table_blocks, std::vector<int32_t> outputs,
        std::vector<int32_t> slots = {}, int tables = 1);

  // The tokens of one sequence: order()[first … first + count), positions rising.
  struct Span {
    int sequence, first, count, last_position;
  };

  struct Slots {
    int source, target;
  };

  int size() const { return static_cast<int>(tokens_.size()); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& positions() const { return positions_; }
  const std::vector<int32_t>& sequences() const { return sequences_; }
  const std::vector<int32_t>& outputs() const { return outputs_; }
  const std::vector<int32_t>& order() const { return order_; }
  const std::vector<Span>& spans() const { return spans_; }
  // Layers that forget alike share a table.
  const int32_t* block_table(int sequence, int table = 0) const {
    const auto row = static_cast<size_t>(table) * static_cast<size_t>(sequence_count_) + static_cast<size_t>(sequence);
    return block_tables_.data() + row * static_cast<size_t>(table_blocks_);
  }
  int tables() const { return tables_; }
  int last_position() const { return *std::max_element(positions_.begin(), positions_.end()); }
  Slots slots(int sequence) const {
    const auto at = 2 * static_cast<size_t>(sequence);
    return {slots_[at], slots_[at + 1]};
  }
  const std::vector<int32_t>& all_slots() const { return slots_; }
  int table_blocks() const { return table_blocks_; }
  int sequence_count() const { return sequence_count_; }
  int largest_token() const { return largest_token_; }

  // Throws std::invalid_argument unless every position fits its block table, every block up to it is one of the
  // pool's `blocks`, and no two tokens share a cache row.
  void check_cache(int block_tokens, int blocks, int table) const;
  // Throws std::invalid_argument unless every sequence with tokens has slots among `slots`, and none writes one that
  // another reads or writes.
  void check_slots(int slots) const;

 private:
  std::vector<int32_t> tokens_, positions_, sequences_, block_tables_, outputs_, slots_;
  int sequence_count_, table_blocks_, tables_, largest_token_ = 0;
  std::vector<int32_t> order_;
  std::vector<Span> spans_;
};

}  // namespace tessera
