// AVX2 tier of vector.h: 8 floats at a time.
#include "lanes_avx2.h"

// needs the one above
#include "vector_lanes.h"

namespace tessera {

void fill_vector_avx2(VectorKernels& kernels) {
  kernels = {"avx2", rms_norm, rope, glu, add_rows, add_scaled, scale_row, soft_cap, delta_step};
}

}  // namespace tessera
