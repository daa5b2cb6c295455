#include "attention_schedule.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

constexpr int kTileRows = 64;  // query rows that share one pass over the keys: enough to repay converting them
constexpr int kFewRows = 16;   // with fewer, reading the keys dominates: the range is split over threads

// Keys per part: short enough to share a short context out, long enough that combining stays cheap.
int part_length(int keys) { return keys <= 512 ? 64 : keys <= 2048 ? 128 : 256; }

}  // namespace

int attention_unit(int heads_per_kv) {
  for (int unit = std::min(heads_per_kv, kFewRows); unit >= kFewRows / 2; --unit)
    if (heads_per_kv % unit == 0) return unit;
  return heads_per_kv;
}

AttentionSchedule schedule_attention(const Batch& batch, int heads_per_unit, int window) {
  AttentionSchedule schedule;
  const int tile_tokens = std::max(1, kTileRows / heads_per_unit);
  const auto position = [&batch](int i) {
    return batch.positions()[static_cast<size_t>(batch.order()[static_cast<size_t>(i)])];
  };
  for (const Batch::Span& span : batch.spans()) {
    for (int first = span.first; first < span.first + span.count; first += tile_tokens) {
      const int count = std::min(tile_tokens, span.first + span.count - first);
      const int rows = count * heads_per_unit, end = position(first + count - 1) + 1;
      const int begin = first_seen(position(first), window);
      const int length = rows <= kFewRows ? part_length(end - begin) : end - begin;
      const int group = static_cast<int>(schedule.groups.size());
      const int parts = (end - begin + length - 1) / length;
      schedule.groups.push_back({rows, parts, schedule.parts});
      for (int part = 0; part < parts; ++part) {
        const int from = begin + part * length;
        schedule.items.push_back({span.sequence, first, count, from, std::min(from + length, end), group, part});
      }
      schedule.most_rows = std::max(schedule.most_rows, rows);
      if (parts == 1) continue;
      schedule.parts += parts;
      schedule.most_part_rows = std::max(schedule.most_part_rows, rows);
    }
  }
  schedule.by_cost.resize(schedule.items.size());
  std::iota(schedule.by_cost.begin(), schedule.by_cost.end(), 0);
  const auto cost = [&schedule](int i) {
    const AttentionItem& item = schedule.items[static_cast<size_t>(i)];
    return static_cast<int64_t>(item.end - item.begin) * item.count;
  };
  std::stable_sort(schedule.by_cost.begin(), schedule.by_cost.end(),
                   [&cost](int a, int b) { return cost(a) > cost(b); });
  return schedule;
}

}  // namespace tessera
