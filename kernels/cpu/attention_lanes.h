// The kernels of attention.h in terms of Vec, for every vector tier: include a lanes_<tier>.h and transpose.h first.
// Internal linkage.
#pragma once
#include "attention_few_lanes.h"
#include "attention_many_lanes.h"

namespace tessera {
namespace {

void attend(const AttentionTask& task) {
  if (task.rows > kFewRows || task.key_dim % kLanes != 0 || task.value_dim % kLanes != 0)
    attend_many(task);
  else if (task.type == KvType::F16)
    attend_few<HalfRow>(task);
  else if (task.type == KvType::Q8_0)
    attend_few<Q8Row>(task);
  else
    attend_few<FloatRow>(task);
}

void store_f16(const float* x, uint8_t* row, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store_half(row + 2 * i, load(x + i));
  for (; i < n; ++i) {
    const uint16_t half = half_of(x[i]);
    __builtin_memcpy(row + 2 * i, &half, 2);
  }
}

}  // namespace
}  // namespace tessera
