// AVX-512 tier of vector.h: 16 floats at a time.
#include "lanes_avx512.h"

// needs the one above
#include "vector_lanes.h"

namespace tessera {

void fill_vector_avx512(VectorKernels& kernels) {
  kernels = {"avx512", rms_norm, rope, glu, add_rows, add_scaled, scale_row, soft_cap, delta_step};
}

}  // namespace tessera
