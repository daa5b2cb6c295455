// Operations on rows of activations, [n][width] floats, and their conversion to int8.
#include "quant_types.cuh"

namespace {

// Sum over a block of 256 threads, given to every thread.
inline float block_sum(float v, float (&partial)[8]) {
  v = warp_sum(v);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = v;
  __syncthreads();
  return warp_sum(threadIdx.x % kWarp < 8 ? partial[threadIdx.x % kWarp] : 0.0f);
}

// The largest over groups of `lanes` lanes; NaN counts as larger than anything.
inline int group_max(int v, int lanes) {
  for (int bits = 1; bits < lanes; bits *= 2) v = max(v, __shfl_xor_sync(kAllLanes, v, bits));
  return v;
}

}  // namespace

// x [n][cols] to int8 values q [n][cols] and facts [n][cols / 32], a scale for every 32 values (lanes_per_scale 4) or
// every 256 (32). Blocks that are not finite become NaN. grid (n, cols / 1024), a warp per 256 values, 8 per lane.
// The numbers are those of kernels/cpu (packing of the 32-value and of the K types), so that a matrix gives the same
// products on either device.
KERNEL(quantize, 128, (const float* x, int8_t* q, Facts* facts, int cols, int lanes_per_scale)) {
  const int first = (blockIdx.y * 4 + threadIdx.x / kWarp) * 256 + threadIdx.x % kWarp * 8;
  const bool is_inside = first < cols;  // the other lanes take part in the shuffles
  float v[8] = {};
  int largest = 0;
  if (is_inside) {
    const float4* const from = (const float4*)(x + (long long)blockIdx.x * cols + first);
    const float4 a = from[0], b = from[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = max(largest, __float_as_int(fabsf(v[i])));
  largest = group_max(largest, lanes_per_scale);
  const bool is_finite = largest < 0x7f800000;
  float scale = __int_as_float(largest) < 0x1p-100f ? 0.0f : __int_as_float(largest) / 127.0f;
  int n[8], sum;
  const auto round_all = [&] {
    const float inverse = is_finite && scale > 0.0f ? 1.0f / scale : 0.0f;
    sum = 0;
    int magnitude = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      n[i] = is_finite ? __float2int_rn(v[i] * inverse) : 0;
      sum += n[i], magnitude += n[i] < 0 ? -n[i] : n[i];
    }
    return magnitude;
  };
  int magnitude = round_all();
  if (lanes_per_scale == kWarp) {  // the CPU's 16-bit sums need at most 1023 per 16 values: flat blocks get a coarser scale
    const int heaviest = group_max(magnitude + __shfl_xor_sync(kAllLanes, magnitude, 1), kWarp);
    if (heaviest > 1023) scale *= float(heaviest) / 1006.0f, round_all();
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);                     // of 16 values
  const int other = __shfl_xor_sync(kAllLanes, sum, 2);          // of the other 16
  if (!is_inside) return;
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i / 4] |= uint32_t(n[i] & 255) << i % 4 * 8;
  *(uint2*)(q + (long long)blockIdx.x * cols + first) = make_uint2(words[0], words[1]);
  if (first % 32) return;
  facts[(long long)blockIdx.x * (cols / 32) + first / 32] =
      Facts{is_finite ? scale : not_a_number(), {int16_t(sum), int16_t(other)}};
}

// y[n] = s / sqrt(mean(s^2) + epsilon) * weight with s = x[n] + residual[n]. `residual` and `sum_out` (which receives s
// and may be x or residual) may be null together; weight null: ones. grid (n); rows may be parts of a wider row (norms per head): each
// begins `stride` values after the one before.
KERNEL(rms_norm, 256, (const float* x, const float* residual, const float* weight, float* sum_out, float* y, int width,
                       int stride, float epsilon)) {
  __shared__ float partial[8];
  const long long at = (long long)blockIdx.x * stride;
  const float* from = x + at;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < width; i += 256) {
    float v = from[i];
    if (residual) v += residual[at + i], sum_out[at + i] = v;
    squares += v * v;
  }
  if (residual) from = sum_out + at;  // every thread reads back what it wrote itself
  const float factor = 1.0f / sqrtf(block_sum(squares, partial) / float(width) + epsilon);
  for (int i = threadIdx.x; i < width; i += 256) y[at + i] = from[i] * factor * (weight ? weight[i] : 1.0f);
}

// Cosines [n][pairs] and sines, as [n][2][pairs], of position * frequency (radians), times magnitude; once per batch
// for all layers, and times 1 + heat ln(floor((position + offset) / length) + 1). The angle is reduced in double, in half
// turns, so that far positions keep their accuracy. grid (n).
KERNEL(rope_table, 128, (const int* positions, const float* frequencies, float* table, int pairs, float magnitude,
                         float length, float heat, float offset)) {
  float* const row = table + (long long)blockIdx.x * 2 * pairs;
  if (heat != 0.0f) magnitude *= 1.0f + heat * logf(floorf((float(positions[blockIdx.x]) + offset) / length) + 1.0f);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const double half_turns = double(positions[blockIdx.x]) * double(frequencies[i]) * 0.31830988618379067154;
    const float angle = float(half_turns - 2.0 * rint(half_turns * 0.5));
    row[i] = cospif(angle) * magnitude;
    row[pairs + i] = sinpif(angle) * magnitude;
  }
}

// Rotates the first 2 * pairs values of every head of x [n][heads][head_dim] in place. Pair i is (2i, 2i + 1), or with
// `halves` (i, i + pairs). grid (n).
KERNEL(rope, 256, (float* x, const float* table, int heads, int head_dim, int pairs, int halves)) {
  const float* const cosines = table + (long long)blockIdx.x * 2 * pairs;
  x += (long long)blockIdx.x * heads * head_dim;
  for (int k = threadIdx.x; k < heads * pairs; k += blockDim.x) {
    const int i = k % pairs;
    float* const head = x + k / pairs * head_dim;
    float &first = head[halves ? i : 2 * i], &second = head[halves ? i + pairs : 2 * i + 1];
    const float a = first, b = second, c = cosines[i], s = cosines[pairs + i];
    first = a * c - b * s, second = a * s + b * c;
  }
}

// y = activation(gate) * up over n values, each gate for `span` neighbours; y may be up, and for span 1 gate.
// grid (n / 256).
KERNEL(glu, 256, (const float* gate, const float* up, float* y, int n, int activation, int span)) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = gated(gate[i / span], up[i], activation);
}

// y = a + b over n values; y may be a or b. grid (n / 256).
KERNEL(add, 256, (const float* a, const float* b, float* y, int n)) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

// y = x * factor over n values; y may be x. grid (n / 256).
KERNEL(scale, 256, (const float* x, float* y, int n, float factor)) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}

// y = cap tanh(x / cap) over n values; y may be x. grid (n / 256).
KERNEL(soft_cap, 256, (const float* x, float* y, int n, float cap)) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = capped(x[i], cap);
}

// y[i] = x[rows[i]]. grid (number of rows).
KERNEL(select_rows, 256, (const float* x, const int* rows, float* y, int width)) {
  const float* const from = x + (long long)rows[blockIdx.x] * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[(long long)blockIdx.x * width + i] = from[i];
}

// A part of every row: y[n][i] = x[n][i] for `count` values; x and y point at the first, rows have strides. grid (n).
KERNEL(copy_part, 128, (const float* x, float* y, int x_stride, int y_stride, int count)) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    y[(long long)blockIdx.x * y_stride + i] = x[(long long)blockIdx.x * x_stride + i];
}
