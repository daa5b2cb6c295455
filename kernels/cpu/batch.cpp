#include "batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument("batch: " + message); }

void check_range(const char* name, const std::vector<int32_t>& values, int64_t end) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= end)
      refuse(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(values[i]) + ", not 0.." +
             std::to_string(end - 1));
}

}  // namespace

Batch::Batch(std::vector<int32_t> tokens, std::vector<int32_t> positions, std::vector<int32_t> sequences,
             std::vector<int32_t> block_tables, int sequence_count, int table_blocks, std::vector<int32_t> outputs,
             std::vector<int32_t> slots, int tables)
    : tokens_(std::move(tokens)),
      positions_(std::move(positions)),
      sequences_(std::move(sequences)),
      block_tables_(std::move(block_tables)),
      outputs_(std::move(outputs)),
      slots_(std::move(slots)),
      sequence_count_(sequence_count),
      table_blocks_(table_blocks),
      tables_(tables) {
  const size_t n = tokens_.size();
  if (n < 1 || n > (1u << 20)) refuse("a run takes 1..1048576 tokens, not " + std::to_string(n));
  if (positions_.size() != n)
    refuse(std::to_string(n) + " tokens, but " + std::to_string(positions_.size()) + " positions");
  if (sequences_.size() != n)
    refuse(std::to_string(n) + " tokens, but " + std::to_string(sequences_.size()) + " sequences");
  if (outputs_.size() > n) refuse("more outputs than tokens");
  if (!slots_.empty() && slots_.size() != 2 * static_cast<size_t>(sequence_count_))
    refuse(std::to_string(sequence_count_) + " sequences, but " + std::to_string(slots_.size()) + " slots");
  constexpr int64_t kAny = std::numeric_limits<int32_t>::max();
  check_range("tokens", tokens_, kAny);
  check_range("positions", positions_, int64_t{1} << 30);  // leaves room to add lengths
  check_range("sequences", sequences_, sequence_count_);
  check_range("outputs", outputs_, static_cast<int64_t>(n));
  largest_token_ = *std::max_element(tokens_.begin(), tokens_.end());

  order_.resize(n);
  std::iota(order_.begin(), order_.end(), 0);
  const auto key = [this](int32_t t) {
    const auto i = static_cast<size_t>(t);
    return std::pair(sequences_[i], positions_[i]);
  };
  std::sort(order_.begin(), order_.end(), [&key](int32_t a, int32_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < n; ++i) {
    const auto [sequence, position] = key(order_[i]);
    if (i > 0 && key(order_[i - 1]) == key(order_[i]))
      refuse("sequence " + std::to_string(sequence) + " has position " + std::to_string(position) + " twice");
    if (spans_.empty() || spans_.back().sequence != sequence) spans_.push_back({sequence, static_cast<int>(i), 0, 0});
    ++spans_.back().count;
    spans_.back().last_position = position;
  }
}

void Batch::check_cache(int block_tokens, int blocks, int table) const {
  if (table >= tables_)
    refuse("a layer needs block table " + std::to_string(table) + ", but there are " + std::to_string(tables_));
  std::vector<int64_t> rows;  // written by this batch
  rows.reserve(tokens_.size());
  for (const Span& span : spans_) {
    const std::string name = "sequence " + std::to_string(span.sequence);
    const int needed = span.last_position / block_tokens + 1;
    if (needed > table_blocks_)
      refuse(name + " reaches position " + std::to_string(span.last_position) + ", but its block table holds " +
             std::to_string(table_blocks_) + " blocks of " + std::to_string(block_tokens));
    const int32_t* const named = block_table(span.sequence, table);
    for (int b = 0; b < needed; ++b)
      if (named[b] < 0 || named[b] >= blocks)
        refuse(name + " names block " + std::to_string(named[b]) + ", but the pool holds 0.." +
               std::to_string(blocks - 1));
    for (int i = span.first; i < span.first + span.count; ++i) {
      const int position = positions_[static_cast<size_t>(order_[static_cast<size_t>(i)])];
      rows.push_back(static_cast<int64_t>(named[position / block_tokens]) * block_tokens + position % block_tokens);
    }
  }
  std::sort(rows.begin(), rows.end());
  if (std::adjacent_find(rows.begin(), rows.end()) != rows.end()) refuse("two tokens would write the same cache row");
}

void Batch::check_slots(int slots) const {
  if (slots_.empty()) refuse("a recurrent layer needs slots");
  std::vector<int> written;
  for (const Span& span : spans_) {
    const Slots own = this->slots(span.sequence);
    if (own.source < -1 || own.source >= slots || own.target < 0 || own.target >= slots)
      refuse("sequence " + std::to_string(span.sequence) + " names slots " + std::to_string(own.source) + " and " +
             std::to_string(own.target) + ", but there are " + std::to_string(slots));
    written.push_back(own.target);
  }
  for (const Span& span : spans_)
    for (size_t i = 0; i < spans_.size(); ++i)
      if (spans_[i].sequence != span.sequence &&
          (written[i] == this->slots(span.sequence).source || written[i] == this->slots(span.sequence).target))
        refuse("two sequences would share slot " + std::to_string(written[i]));
}

}  // namespace tessera
