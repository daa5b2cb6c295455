// What this processor and its operating system can run. Compiled without any ISA flag.
#pragma once

namespace tessera {

// Rising order: a higher tier includes the lower ones.
enum class Tier : int { scalar = 0, avx2 = 1, avx512 = 2, avx512_vnni = 3 };
inline constexpr int kTierCount = 4;

const char* tier_name(Tier tier);
// The best tier that CPUID offers and XCR0 shows the operating system saves registers for.
Tier best_tier();

}  // namespace tessera
