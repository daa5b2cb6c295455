// Assembles one set of kernels: every family's best functions up to a tier.
#include <stdexcept>

#include "cpu_features.h"
#include "program.h"

namespace tessera {
namespace {

Tier parse_tier(const std::string& name) {
  if (name == "auto") return best_tier();
  for (int t = 0; t < kTierCount; ++t) {
    if (name != tier_name(static_cast<Tier>(t))) continue;
    if (static_cast<Tier>(t) > best_tier()) throw std::invalid_argument("tier " + name + " cannot run on this machine");
    return static_cast<Tier>(t);
  }
  throw std::invalid_argument("unknown tier " + name);
}

}  // namespace

Kernels load_kernels(const std::string& name) {
  const Tier tier = parse_tier(name);
  Kernels kernels{tier_name(tier), matmul_table(tier), {}, {}};
  fill_vector_scalar(kernels.vector);
  fill_attention_scalar(kernels.attention);
#ifdef TESSERA_X86_TIERS
  if (tier >= Tier::avx2) {
    fill_vector_avx2(kernels.vector);
    fill_attention_avx2(kernels.attention);
  }
#endif
#ifdef TESSERA_AVX512_TIERS
  if (tier >= Tier::avx512) {
    fill_vector_avx512(kernels.vector);
    fill_attention_avx512(kernels.attention);
  }
#endif
  return kernels;
}

}  // namespace tessera
