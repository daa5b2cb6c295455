#include "value_memory.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

constexpr size_t kAlignment = 16;  // floats: rows then begin at multiples of 64 bytes, whatever their number

using Matrix = std::vector<std::vector<bool>>;

// Whether two values are needed at the same time, beyond the operations that may write one over the other.
Matrix conflicts_of(const ValueUse& use) {
  const size_t count = use.widths.size();
  Matrix conflicts(count, std::vector<bool>(count, false));
  for (size_t set = 0; set < use.sets.size(); ++set) {
    const std::vector<bool>& needed = use.sets[set];
    const auto in_place = [&](size_t a, size_t b) {
      return std::any_of(use.in_place.begin(), use.in_place.end(), [&](const ValueUse::InPlace& pair) {
        const auto x = static_cast<size_t>(pair.x), out = static_cast<size_t>(pair.out);
        return pair.set == set && ((x == a && out == b) || (x == b && out == a));
      });
    };
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; needed[a] && b < count; ++b)
        if (a != b && needed[b] && !in_place(a, b)) conflicts[a][b] = true;
  }
  return conflicts;
}

// The value that stands for each one's memory: pairs that may be one memory are joined where nothing speaks against it.
std::vector<size_t> join(const ValueUse& use, Matrix& conflicts) {
  std::vector<size_t> head(use.widths.size());
  std::iota(head.begin(), head.end(), size_t{0});
  for (const ValueUse::InPlace& pair : use.in_place) {
    const size_t a = head[static_cast<size_t>(pair.x)], b = head[static_cast<size_t>(pair.out)];
    if (a == b) continue;
    if (use.widths[a] != use.widths[b] || conflicts[a][b]) {
      conflicts[a][b] = conflicts[b][a] = true;
      continue;
    }
    for (size_t v = 0; v < head.size(); ++v) {
      if (head[v] == b) head[v] = a;
      if (conflicts[b][v]) conflicts[a][v] = conflicts[v][a] = true;
    }
  }
  return head;
}

}  // namespace

size_t padded_width(int width) { return (static_cast<size_t>(width) + kAlignment - 1) / kAlignment * kAlignment; }

std::pair<std::vector<size_t>, size_t> share_memory(const ValueUse& use) {
  Matrix conflicts = conflicts_of(use);
  const std::vector<size_t> head = join(use, conflicts);
  const size_t count = use.widths.size();
  std::vector<bool> last(count, true);  // of a joined memory: only if it is so of all its values
  for (size_t v = 0; v < count; ++v) last[head[v]] = last[head[v]] && use.last[v];
  std::vector<size_t> order;  // the widest first, each where it fits
  for (size_t v = 0; v < count; ++v)
    if (head[v] == v && use.widths[v] > 0) order.push_back(v);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(last[a], -use.widths[a]) < std::pair(last[b], -use.widths[b]);
  });
  std::vector<size_t> begin(count, 0);
  size_t end = 0, end_of_used = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t v = order[i];
    std::vector<std::pair<size_t, size_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (conflicts[v][order[j]])
        taken.emplace_back(begin[order[j]], begin[order[j]] + padded_width(use.widths[order[j]]));
    std::sort(taken.begin(), taken.end());
    size_t at = last[v] ? end_of_used : 0;
    for (const auto& [from, to] : taken)
      if (from < at + padded_width(use.widths[v])) at = std::max(at, to);
    begin[v] = at;
    end = std::max(end, at + padded_width(use.widths[v]));
    if (!last[v]) end_of_used = end;
  }
  for (size_t v = 0; v < count; ++v) begin[v] = begin[head[v]];
  return {begin, end};
}

}  // namespace tessera
