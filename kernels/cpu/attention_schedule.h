// How the attention of one batch is cut into work items. The cut depends on the batch alone, never on the threads, so
// that results have the same bits for any number of them.
#pragma once
#include <vector>

#include "batch.h"

namespace tessera {

// Query tokens of one sequence against a range of its keys; executed once per unit of heads.
struct AttentionItem {
  int sequence;
  int first, count;  // tokens: batch.order()[first … first + count)
  int begin, end;    // key positions
  int group, part;   // the parts of a group are combined in order
};

// Items of one group are the parts of one key range; first_part counts those of all groups before it that have several.
struct AttentionGroup {
  int rows, parts, first_part;
};

struct AttentionSchedule {
  std::vector<AttentionItem> items;
  std::vector<AttentionGroup> groups;
  std::vector<int> by_cost;  // item indices, the most expensive first
  int most_rows = 0;         // query rows of the largest group
  int most_part_rows = 0;    // of the largest group that has several parts
  int parts = 0;             // of all groups that have several
};

// How many of the query heads that share a KV head attend together: all of them, unless they are so many that a token
// alone would keep one thread busy.
int attention_unit(int heads_per_kv);

// The first position that a query sees. window 0: all up to its own; w > 0: the last w of these; -c: those of its own
// chunk of c positions.
inline int first_seen(int position, int window) {
  if (window < 0) return position / -window * -window;
  return window > 0 && position >= window ? position - window + 1 : 0;
}

// heads_per_unit: query heads of a unit. window: see first_seen.
AttentionSchedule schedule_attention(const Batch& batch, int heads_per_unit, int window);

}  // namespace tessera
