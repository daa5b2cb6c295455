// Weights times few rows of activations: decode. Compiled once per type (TYPE, a struct of quant_types.cuh or
// float_types.cuh), so that a model compiles the types it has. Matrices are raw GGUF rows, 16-byte aligned.
//
// Activations: for quantised weights int8 [n][cols] and Facts [n][cols / 32] (quantize in rows.cu); for float weights
// floats [n][cols], and `facts` is not read. Outputs are floats [n][rows]. `bias` [rows] and `residual` [n][rows] are
// added where given; `residual` may be `y`.
#include "matrix.cuh"

namespace {

constexpr int kWarps = 4, kRowsPerWarp = 2, kRowsPerBlock = kWarps * kRowsPerWarp;

// The rows of a matrix that this warp multiplies; past the end: the last one again.
struct WarpRows {
  const uint8_t* at[kRowsPerWarp];
  int first;

  WarpRows(const uint8_t* matrix, int rows, int cols) : first(blockIdx.x * kRowsPerBlock + threadIdx.x / kWarp * kRowsPerWarp) {
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r)
      at[r] = matrix + matrix_row_bytes<TYPE>(cols) * min(first + r, rows - 1);
  }
};

}  // namespace

// y[n] = w x[n]. grid (rows / 8, n): reads the matrix once per row of activations, for a few of them.
TYPED_KERNEL(matvec, 128, (const uint8_t* w, const uint8_t* x, const Facts* facts, const float* bias,
                           const float* residual, float* y, int rows, int cols)) {
  const WarpRows mine(w, rows, cols);
  const long long out = (long long)blockIdx.y * rows;
  float sums[kRowsPerWarp];
  warp_dots<TYPE>(mine.at, Input{x, facts}.row<TYPE>(blockIdx.y, cols), cols, sums);
  const int r = threadIdx.x % kWarp, row = mine.first + r;
  if (r >= kRowsPerWarp || row >= rows) return;
  float sum = r == 0 ? sums[0] : sums[1];
  if (bias) sum += bias[row];
  if (residual) sum += residual[out + row];
  y[out + row] = sum;
}

// A product per head, of activations [n][heads][x_head] whose first `cols` values count: y[n][h] = W_h x[n][h], where
// head h has the `rows` rows from h * head_rows + first on. grid (rows / 8, heads, n).
TYPED_KERNEL(head_matvec, 128, (const uint8_t* w, const uint8_t* x, const Facts* facts, float* y, int head_rows,
                                int first, int rows, int cols, int x_head, int y_head)) {
  const int head = blockIdx.y, token_head = blockIdx.z * gridDim.y + head;
  const WarpRows mine(w + matrix_row_bytes<TYPE>(cols) * ((long long)head * head_rows + first), rows, cols);
  float sums[kRowsPerWarp];
  warp_dots<TYPE>(mine.at, Input{x, facts}.row<TYPE>(token_head, x_head), cols, sums);
  const int r = threadIdx.x % kWarp, row = mine.first + r;
  if (r < kRowsPerWarp && row < rows) y[(long long)token_head * y_head + row] = r == 0 ? sums[0] : sums[1];
}

// The same with every W_h transposed: y[n][h] = sum over r of x[n][h][r] * row r, x floats. Threads that share 32
// columns take turns with the rows; their sums meet in shared memory. grid (heads, n); cols at most 4096; dynamic shared
// memory: 128 / ceil(cols / 32) * cols floats.
TYPED_KERNEL(head_transposed, 128, (const uint8_t* w, const float* x, float* y, int head_rows, int first, int rows,
                                    int cols, int x_head, int y_head)) {
  DYNAMIC_SHARED(float, partial);
  const int token_head = blockIdx.y * gridDim.x + blockIdx.x, slices = (cols + 31) / 32;
  const int turns = blockDim.x / slices, turn = threadIdx.x / slices, s = threadIdx.x % slices;
  const uint8_t* const rows_of_head = w + matrix_row_bytes<TYPE>(cols) * ((long long)blockIdx.x * head_rows + first);
  x += (long long)token_head * x_head, y += (long long)token_head * y_head;
  if (turn < turns) {
    float sums[32] = {};
    for (int r = turn; r < rows; r += turns)
      dequantize_slice<TYPE>(rows_of_head + matrix_row_bytes<TYPE>(cols) * r, s, cols,
                             [&](int i, float value) { sums[i & 31] += x[r] * value; });
#pragma unroll
    for (int k = 0; k < 32; ++k)  // places known to the compiler keep the sums in registers
      if (32 * s + k < cols) partial[turn * cols + 32 * s + k] = sums[k];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    float sum = 0.0f;
    for (int t = 0; t < turns; ++t) sum += partial[t * cols + i];
    y[i] = sum;
  }
}

// The first half of a mixture of experts: y[n][k] = activation(gate[id] x[n]) * (up[id] x[n]) for the k-th expert of
// activation row n. grid (rows / 8, top_k, n). An id outside 0 … experts - 1 or a null pointer in the table: not on
// this device, y[n][k] becomes 0. Tables of biases [rows] may be null.
TYPED_KERNEL(experts_gate_up, 128, (const uint8_t* const* gate, const uint8_t* const* up,
                                    const float* const* gate_biases, const float* const* up_biases, const int* ids,
                                    const uint8_t* x, const Facts* facts, float* y, int experts, int rows, int cols,
                                    int top_k, int activation)) {
  const int pair = blockIdx.z * top_k + blockIdx.y, id = ids[pair];
  const bool is_here = id >= 0 && id < experts && gate[id];
  const int r = threadIdx.x % kWarp, row = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarp * kRowsPerWarp + r;
  float hidden = 0.0f;
  if (is_here) {
    const Input in = Input{x, facts}.row<TYPE>(blockIdx.z, cols);
    float gates[kRowsPerWarp], ups[kRowsPerWarp];
    warp_dots<TYPE>(WarpRows(gate[id], rows, cols).at, in, cols, gates);
    warp_dots<TYPE>(WarpRows(up[id], rows, cols).at, in, cols, ups);
    float g = r == 0 ? gates[0] : gates[1], u = r == 0 ? ups[0] : ups[1];
    if (gate_biases && row < rows) g += gate_biases[id][row];
    if (up_biases && row < rows) u += up_biases[id][row];
    hidden = gated(g, u, activation);
  }
  if (r < kRowsPerWarp && row < rows) y[(long long)pair * rows + row] = hidden;
}

// The second half: y[n] = sum over k of weights[n][k] * (down[id] x[n][k] + biases[id]), over the experts that are here, in the
// order of k. grid (rows / 8, n).
TYPED_KERNEL(experts_down, 128, (const uint8_t* const* down, const float* const* biases, const int* ids, const float* weights, const uint8_t* x,
                                 const Facts* facts, float* y, int experts, int rows, int cols, int top_k)) {
  const int r = threadIdx.x % kWarp, row = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarp * kRowsPerWarp + r;
  const bool is_mine = r < kRowsPerWarp && row < rows;
  float total = 0.0f;
  for (int k = 0; k < top_k; ++k) {
    const int pair = blockIdx.y * top_k + k, id = ids[pair];
    if (id < 0 || id >= experts || !down[id]) continue;
    float sums[kRowsPerWarp];
    warp_dots<TYPE>(WarpRows(down[id], rows, cols).at, Input{x, facts}.row<TYPE>(pair, cols), cols, sums);
    if (is_mine) total += weights[pair] * ((r == 0 ? sums[0] : sums[1]) + (biases ? biases[id][row] : 0.0f));
  }
  if (is_mine) y[(long long)blockIdx.y * rows + row] = total;
}

// y[n] = table[tokens[n]] as floats. grid (n). A token outside the table gives NaN.
TYPED_KERNEL(embed, 128, (const uint8_t* table, const int* tokens, float* y, int vocabulary, int cols)) {
  const int token = tokens[blockIdx.x];
  const bool is_known = token >= 0 && token < vocabulary;
  y += (long long)blockIdx.x * cols;
  dequantize_row<TYPE>(table + matrix_row_bytes<TYPE>(cols) * (is_known ? token : 0), cols, [&](int i, float value) {
    y[i] = is_known ? value : not_a_number();
  });
}
