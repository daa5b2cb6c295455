// Layers that remember a state of fixed size: a short convolution over time and the gated delta rule, which is float32
// throughout.
//
// Spans [count][3] cut a batch by sequences: sequence, first place in `order`, number of tokens; order [n] are the tokens
// by sequence and position. A span may be empty. slots [sequences][2]: where a sequence's state is read (-1: it begins here) and written.
#include "language.cuh"

namespace {

constexpr int kMostTaps = 8;

struct Span {
  const int* tokens;
  int count, source, target;

  Span(const int* order, const int* spans, const int* slots) {
    const int* const span = spans + 3 * blockIdx.y;
    tokens = order + span[1], count = span[2];
    source = slots[2 * span[0]], target = slots[2 * span[0] + 1];
  }
};

}  // namespace

// y[t][c] = silu(sum over j of w[c][j] x[t - taps + 1 + j][c]); tails [slots][taps - 1][channels] hold what comes before
// the batch. At most 8 taps. grid (channels / 128, spans).
KERNEL(short_conv, 128, (const float* x, const float* w, float* y, const int* order, const int* spans, const int* slots,
                         float* tails, int channels, int taps)) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, kept = taps - 1;
  if (c >= channels) return;
  const Span span(order, spans, slots);
  if (span.count == 0) return;
  float past[kMostTaps] = {};
  if (span.source >= 0)
    for (int j = 0; j < kept; ++j) past[j] = tails[((long long)span.source * kept + j) * channels + c];
  for (int i = 0; i < span.count; ++i) {
    const long long at = (long long)span.tokens[i] * channels + c;
    past[kept] = x[at];
    float sum = 0.0f;
    for (int j = 0; j < taps; ++j) sum += w[(long long)c * taps + j] * past[j];
    y[at] = gated(sum, 1.0f, kSilu);
    for (int j = 0; j < kept; ++j) past[j] = past[j + 1];
  }
  for (int j = 0; j < kept; ++j) tails[((long long)span.target * kept + j) * channels + c] = past[j];
}

// Per value head, with q and k of length 1: S = e^g S; S += k (beta (v - S^T k))^T; y = S^T q / sqrt(key_dim), where
// g = a softplus(alpha + dt). x [n] holds all queries, keys and values; S [slots][value_heads][key_dim][value_dim]. A
// thread has columns of S. grid (value_heads, spans); dynamic shared memory: 2 * key_dim floats.
KERNEL(delta_rule, 128, (const float* x, const float* alpha, const float* beta, const float* a, const float* dt, float* y,
                         const int* order, const int* spans, const int* slots, float* states, int key_heads,
                         int key_dim, int value_dim, int tiled, float epsilon)) {
  DYNAMIC_SHARED(float, query);
  float* const key = query + key_dim;
  const int head = blockIdx.x, heads = gridDim.x, lane = threadIdx.x % kWarp;
  const int key_head = tiled ? head % key_heads : head / (heads / key_heads);
  const int keys = key_heads * key_dim, width = 2 * keys + heads * value_dim;
  const Span span(order, spans, slots);
  if (span.count == 0) return;
  const float* from = states + ((long long)span.source * heads + head) * key_dim * value_dim;
  float* const to = states + ((long long)span.target * heads + head) * key_dim * value_dim;
  for (int i = 0; i < span.count; ++i) {
    const int token = span.tokens[i];
    const float* const row = x + (long long)token * width;
    float squares[2] = {};
    for (int k = lane; k < key_dim; k += kWarp) {  // every warp adds up the same
      const float q = row[key_head * key_dim + k], v = row[keys + key_head * key_dim + k];
      squares[0] += q * q, squares[1] += v * v;
    }
    const float q_factor = 1.0f / sqrtf((warp_sum(squares[0]) + epsilon) * float(key_dim));
    const float k_factor = 1.0f / sqrtf(warp_sum(squares[1]) + epsilon);
    for (int k = threadIdx.x; k < key_dim; k += blockDim.x) {
      query[k] = row[key_head * key_dim + k] * q_factor;
      key[k] = row[keys + key_head * key_dim + k] * k_factor;
    }
    __syncthreads();
    const float open = alpha[(long long)token * heads + head] + dt[head];
    const float decay = expf(a[head] * (open > 20.0f ? open : log1pf(expf(open))));
    const float share = 1.0f / (1.0f + expf(-beta[(long long)token * heads + head]));
    const bool is_new = i == 0 && span.source < 0;
    for (int v = threadIdx.x; v < value_dim; v += blockDim.x) {
      float seen = 0.0f, mixed = 0.0f;
      if (!is_new)
        for (int k = 0; k < key_dim; ++k) seen += from[(long long)k * value_dim + v] * key[k];
      const float change = share * (row[2 * keys + head * value_dim + v] - decay * seen);
      for (int k = 0; k < key_dim; ++k) {
        const long long at = (long long)k * value_dim + v;
        const float next = (is_new ? 0.0f : decay * from[at]) + key[k] * change;
        to[at] = next;
        mixed += next * query[k];
      }
      y[((long long)token * heads + head) * value_dim + v] = mixed;
    }
    from = to;
    __syncthreads();
  }
}
