// Routing of tokens to experts; the products themselves are in matvec.cu and matmul.cu.
#include "language.cuh"

namespace {

constexpr float kLargest = 3.402823466e+38f;

// NaN counts as the lowest logit, so that choices and weights are always defined.
inline float finite(float x) { return x >= -kLargest ? fminf(x, kLargest) : -kLargest; }

// One lane per group: experts of all but the `used` best groups get -infinity; of equal groups the first is better.
inline void close_groups(float* scores, int size, int groups, int used) {
  if (groups == 1) return;
  const int group = threadIdx.x;
  float best = -infinity(), second = -infinity();
  for (int e = group * size; group < groups && e < (group + 1) * size; ++e) {
    second = fmaxf(second, fminf(best, scores[e]));
    best = fmaxf(best, scores[e]);
  }
  const float sum = group < groups ? finite(best + second) : -infinity();
  int better = 0;
  for (int other = 0; other < groups; ++other) {
    const float theirs = __shfl_sync(kAllLanes, sum, other);
    better += theirs > sum || (theirs == sum && other < group);
  }
  for (int e = group * size; group < groups && better >= used && e < (group + 1) * size; ++e) scores[e] = -infinity();
  __syncwarp();
}

}  // namespace

// The top_k best of the experts by their logits [n][experts], the lower number first where they are equal, and their
// weights: gates, which are a softmax over all experts or a sigmoid of each; `normalise`: divided by their sum; then
// times `scale`. With `bias` or several groups they are ranked by gate + bias instead, and only the experts of those
// `groups_used` groups are eligible whose two best add up to most. grid (n), one warp, so at most 32 groups; dynamic
// shared memory: experts floats.
KERNEL(router, 32, (const float* logits, int* ids, float* weights, int experts, int top_k, int sigmoid, int normalise,
                    float scale, const float* bias, int groups, int groups_used)) {
  DYNAMIC_SHARED(float, open);  // what experts are ranked by; -infinity: taken
  const int lane = threadIdx.x;
  logits += (long long)blockIdx.x * experts;
  ids += (long long)blockIdx.x * top_k, weights += (long long)blockIdx.x * top_k;
  float peak = -kLargest;
  for (int e = lane; e < experts; e += kWarp) open[e] = finite(logits[e]), peak = fmaxf(peak, open[e]);
  peak = warp_max(peak);
  float total = 0.0f;
  for (int e = lane; e < experts; e += kWarp) total += expf(open[e] - peak);
  total = warp_sum(total);
  const auto gate_of = [&](float logit) { return sigmoid ? 1.0f / (1.0f + expf(-logit)) : expf(logit - peak) / total; };
  if (bias || groups > 1) {
    for (int e = lane; e < experts; e += kWarp) open[e] = finite(gate_of(open[e]) + (bias ? bias[e] : 0.0f));
    __syncwarp();
    close_groups(open, experts / groups, groups, groups_used);
  }
  float chosen = 0.0f;
  for (int k = 0; k < top_k; ++k) {
    float best = -infinity();
    int id = 0x7fffffff;
    for (int e = lane; e < experts; e += kWarp)
      if (open[e] > best) best = open[e], id = e;
#pragma unroll
    for (int bits = 16; bits; bits >>= 1) {
      const float other = __shfl_xor_sync(kAllLanes, best, bits);
      const int other_id = __shfl_xor_sync(kAllLanes, id, bits);
      if (other > best || (other == best && other_id < id)) best = other, id = other_id;
    }
    const float weight = gate_of(finite(logits[id]));
    chosen += weight;
    if (id % kWarp == lane) open[id] = -infinity();  // only this lane looks at it
    if (lane == 0) ids[k] = id, weights[k] = weight;
  }
  __syncwarp();
  const float factor = normalise && chosen > 0.0f ? scale / chosen : scale;
  for (int k = lane; k < top_k; k += kWarp) weights[k] *= factor;
}

// Sorts the pairs (activation row, k) by expert, those whose expert is here (a non-null pointer in `table`): the pairs of
// expert e become sorted[starts[e] … starts[e + 1]), in any order; starts has experts + 1 entries. One block of 256
// threads; dynamic shared memory: experts ints.
KERNEL(group_pairs, 256, (const uint8_t* const* table, const int* ids, int* starts, int* sorted, int experts, int pairs)) {
  DYNAMIC_SHARED(int, cursor);
  const auto is_here = [&](int id) { return id >= 0 && id < experts && table[id]; };
  for (int e = threadIdx.x; e < experts; e += blockDim.x) cursor[e] = 0;
  __syncthreads();
  for (int p = threadIdx.x; p < pairs; p += blockDim.x)
    if (is_here(ids[p])) atomicAdd(&cursor[ids[p]], 1);
  __syncthreads();
  if (threadIdx.x < kWarp) {  // counts to starts: a warp adds up 32 at a time
    int begin = 0;
    for (int first = 0; first < experts; first += kWarp) {
      const int e = first + threadIdx.x, count = e < experts ? cursor[e] : 0;
      int upto = count;
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const int below = __shfl_sync(kAllLanes, upto, int(threadIdx.x) - step < 0 ? 0 : threadIdx.x - step);
        if (int(threadIdx.x) >= step) upto += below;
      }
      if (e < experts) starts[e] = cursor[e] = begin + upto - count;
      begin += __shfl_sync(kAllLanes, upto, kWarp - 1);
    }
    if (threadIdx.x == 0) starts[experts] = begin;
  }
  __syncthreads();
  for (int p = threadIdx.x; p < pairs; p += blockDim.x)
    if (is_here(ids[p])) sorted[atomicAdd(&cursor[ids[p]], 1)] = p;
}

// y[n] = sum over k of weights[n][k] * x[n][k], over the experts that are here, in the order of k. grid (n, width / 256).
KERNEL(combine_experts, 256, (const uint8_t* const* table, const int* ids, const float* weights, const float* x, float* y,
                              int experts, int width, int top_k)) {
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0.0f;
  for (int k = 0; k < top_k; ++k) {
    const long long pair = (long long)blockIdx.x * top_k + k;
    const int id = ids[pair];
    if (id >= 0 && id < experts && table[id]) sum += weights[pair] * x[pair * width + i];
  }
  y[(long long)blockIdx.x * width + i] = sum;
}
