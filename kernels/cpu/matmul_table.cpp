// One table of kernels per tier, each built from the tiers below it.
#include <algorithm>

#include "matmul.h"

namespace tessera {
namespace {

using Fill = void (*)(MatmulTable&);
constexpr Fill kFills[kTierCount] = {
    fill_matmul_scalar,
#ifdef TESSERA_X86_TIERS
    fill_matmul_avx2,
#endif
#ifdef TESSERA_AVX512_TIERS
    fill_matmul_avx512,
    fill_matmul_avx512_vnni,
#endif
};

MatmulTable build(Tier tier) {
  MatmulTable table{};
  for (int t = 0; t <= static_cast<int>(tier); ++t)
    if (kFills[t]) kFills[t](table);
  table.tier = tier_name(tier);
  return table;
}

}  // namespace

const MatmulTable& matmul_table(Tier tier) {
  static const Tier best = best_tier();
  static const MatmulTable tables[kTierCount] = {
      build(Tier::scalar),
      build(std::min(Tier::avx2, best)),
      build(std::min(Tier::avx512, best)),
      build(std::min(Tier::avx512_vnni, best)),
  };
  return tables[static_cast<int>(std::min(tier, best))];
}

}  // namespace tessera
