// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/cpu_targets.h"

#include "hwy/detect_targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace msitd::compute {

#if HWY_ARCH_X86

namespace {

struct Registers {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
};

// Zeros if the CPU has no such leaf.
Registers Leaf(unsigned leaf) {
  Registers out;
  __get_cpuid_count(leaf, 0, &out.a, &out.b, &out.c, &out.d);
  return out;
}

bool HasAll(unsigned bits, unsigned wanted) {
  return (bits & wanted) == wanted;
}

// Which registers the system saves when it switches threads.
uint64_t SavedRegisters() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

}  // namespace

int64_t CpuTargets() {
  constexpr unsigned kSsse3 = bit_SSE | bit_SSE2;
  constexpr unsigned kSse4 = bit_SSE4_1 | bit_SSE4_2 | bit_PCLMUL | bit_AES;
  constexpr unsigned kAvx = bit_AVX | bit_FMA | bit_F16C | bit_OSXSAVE;
  constexpr unsigned kAvx2 = bit_AVX2 | bit_BMI | bit_BMI2;
  constexpr unsigned kAvx512 =
      bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW;
  constexpr uint64_t kXmmYmm = 0x6;
  constexpr uint64_t kZmm = 0xe0;
  const Registers basic = Leaf(1);
  const Registers more = Leaf(7);
  const Registers extended = Leaf(0x80000001);
  if (!HasAll(basic.d, kSsse3) || !HasAll(basic.c, bit_SSE3 | bit_SSSE3)) {
    return 0;
  }
  int64_t out = HWY_SSSE3;
  if (!HasAll(basic.c, kSse4)) return out;
  out |= HWY_SSE4;
  if (!HasAll(basic.c, kAvx) || !HasAll(more.b, kAvx2) ||
      !HasAll(extended.c, bit_LZCNT)) {
    return out;
  }
  const uint64_t saved = SavedRegisters();
  if ((saved & kXmmYmm) != kXmmYmm) return out;
  out |= HWY_AVX2;
  if (HasAll(more.b, kAvx512) && (saved & kZmm) == kZmm) out |= HWY_AVX3;
  return out;
}

#elif HWY_ARCH_ARM

int64_t CpuTargets() { return HWY_STATIC_TARGET & HWY_NEON; }

#else

int64_t CpuTargets() { return 0; }

#endif

}  // namespace msitd::compute
