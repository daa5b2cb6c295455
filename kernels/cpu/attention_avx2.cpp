// AVX2 tier of attention.h: FMA on float32, caches converted by F16C.
#include "lanes_avx2.h"
#include "transpose.h"

// needs the two above
#include "attention_lanes.h"

namespace tessera {

void fill_attention_avx2(AttentionKernels& kernels) {
  kernels.tier = "avx2";
  kernels.scratch_bytes = scratch_bytes;
  kernels.attend = attend;
  kernels.store[static_cast<int>(KvType::F16)] = store_f16;
}

}  // namespace tessera
