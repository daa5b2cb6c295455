#include "cpu_features.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>

#include <cstdint>
#define TESSERA_X86 1
#endif

namespace tessera {

const char* tier_name(Tier tier) {
  static const char* const names[kTierCount] = {"scalar", "avx2", "avx512", "avx512_vnni"};
  return names[static_cast<int>(tier)];
}

#ifdef TESSERA_EMULATE_AVX512
Tier best_tier() { return Tier::avx512_vnni; }  // the test module computes them in software
#elif defined(TESSERA_X86)
namespace {

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{};
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

uint64_t saved_register_state() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

constexpr bool has(uint32_t word, int bit) { return (word >> bit) & 1u; }

}  // namespace

Tier best_tier() {
  const Registers one = cpuid(1, 0);
  if (!has(one.ecx, 27)) return Tier::scalar;  // OSXSAVE
  const uint64_t saved = saved_register_state();
  const Registers seven = cpuid(7, 0);
  const bool avx2 = (saved & 0x6) == 0x6 && has(one.ecx, 12) /*FMA*/ && has(one.ecx, 29) /*F16C*/ &&
                    has(seven.ebx, 5) /*AVX2*/ && has(seven.ebx, 8) /*BMI2*/;
  if (!avx2) return Tier::scalar;
#ifndef TESSERA_AVX512_TIERS
  return Tier::avx2;  // all that was built
#else
  const bool avx512 = (saved & 0xe6) == 0xe6 && has(seven.ebx, 16) /*F*/ && has(seven.ebx, 17) /*DQ*/ &&
                      has(seven.ebx, 28) /*CD*/ && has(seven.ebx, 30) /*BW*/ && has(seven.ebx, 31) /*VL*/;
  if (!avx512) return Tier::avx2;
  return has(seven.ecx, 11) /*VNNI*/ ? Tier::avx512_vnni : Tier::avx512;
#endif
}
#else
Tier best_tier() { return Tier::scalar; }
#endif

}  // namespace tessera
