// AVX-512 tier of attention.h: the kernels of attention_lanes.h on 16 lanes.
#include "lanes_avx512.h"
#include "transpose.h"

// needs the two above
#include "attention_lanes.h"

namespace tessera {

void fill_attention_avx512(AttentionKernels& kernels) {
  kernels.tier = "avx512";
  kernels.scratch_bytes = scratch_bytes;
  kernels.attend = attend;
  kernels.store[static_cast<int>(KvType::F16)] = store_f16;
}

}  // namespace tessera
