// Weights times many rows of activations: prefill. Matrices and activations as in matvec.cu.
#include "tiles.cuh"

// Many rows of activations. With a null `table`: y[n] = w x[n], grid (rows / 64, n / 64). Else experts: the pairs
// (activation row, expert) of expert e are pairs[starts[e] … starts[e + 1]) (group_pairs in experts.cu), and
// y[pair] = table[e] x[pair / pairs_per_input]; grid (rows / 64, most pairs of one expert / 64, experts). Pairs of
// absent experts are not in the list, and their y is left as it was. `biases`, a table like it, may be null.
TYPED_KERNEL(matmul, 128, (const uint8_t* w, const uint8_t* const* table, const float* const* biases,
                           const int* starts, const int* pairs, int pairs_per_input, const uint8_t* x,
                           const Facts* facts, const float* bias,
                           const float* residual, float* y, int rows, int cols, int n)) {
  __shared__ ProductMemory<TYPE> memory;
  const int begin = (table ? starts[blockIdx.z] : 0) + blockIdx.y * kTile;
  const int count = (table ? starts[blockIdx.z + 1] : n) - begin, row0 = blockIdx.x * kTile, place = threadIdx.x / 2;
  if (count <= 0) return;
  if (biases) bias = biases[blockIdx.z];
  const uint8_t* const matrix = table ? table[blockIdx.z] : w;
  const uint8_t* const row = matrix + matrix_row_bytes<TYPE>(cols) * min(row0 + place, rows - 1);
  const int last = begin + min(place, count - 1);
  const Input in = Input{x, facts}.row<TYPE>(table ? pairs[last] / pairs_per_input : last, cols);
  multiply<TYPE>(memory, row, in, cols, count, [&](int r, int t, float sum) {
    if (row0 + r >= rows) return;
    const long long at = (long long)(table ? pairs[begin + t] : begin + t) * rows + row0 + r;
    if (bias) sum += bias[row0 + r];
    if (residual) sum += residual[at];
    y[at] = sum;
  });
}
