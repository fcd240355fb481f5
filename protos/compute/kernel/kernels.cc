// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/kernels.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "hwy/targets.h"
#include "protos/compute/kernel/cpu_targets.h"
#include "protos/compute/kernel/reference.h"

namespace msitd::compute {
namespace {

const PartHashFunctions& HashOf([[maybe_unused]] int64_t target) {
#if defined(__x86_64__)
  if (target == HWY_AVX3) return Avx512PartHash();
  if (target == HWY_AVX2) return Avx2PartHash();
#endif
  return BaselinePartHash();
}

std::vector<Kernels> Detect() {
  // Both fallbacks run on every CPU; one of them was compiled.
  int64_t targets = (CpuTargets() | HWY_SCALAR | HWY_EMU128) & HWY_TARGETS;
  std::vector<Kernels> out;
  // A lower bit is a better target.
  for (; targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    const bool fallback = target == HWY_SCALAR || target == HWY_EMU128;
    out.push_back({fallback ? "SCALAR" : hwy::TargetName(target), target,
                   SummaryKernelOf(target), &HashOf(target)});
  }
  out.push_back({"REFERENCE", kReferenceTarget, ReferenceSummaryKernel,
                 &BaselinePartHash()});
  return out;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) ==
           std::toupper(static_cast<unsigned char>(y));
  });
}

const Kernels& Choose() {
  const std::span<const Kernels> all = SupportedKernels();
  const char* wanted = std::getenv("MSITD_FORCE_TARGET");
  if (wanted == nullptr || *wanted == '\0') return all.front();
  std::string names;
  for (const Kernels& kernels : all) {
    if (SameName(kernels.name, wanted)) return kernels;
    names.append(names.empty() ? "" : ", ").append(kernels.name);
  }
  std::fprintf(stderr,
               "MSITD_FORCE_TARGET=%.40s ignored: this CPU and build have %s\n",
               wanted, names.c_str());
  return all.front();
}

}  // namespace

std::span<const Kernels> SupportedKernels() {
  static const std::vector<Kernels>& kernels = *new std::vector(Detect());
  return kernels;
}

const Kernels& ChosenKernels() {
  static const Kernels& chosen = Choose();
  return chosen;
}

}  // namespace msitd::compute
