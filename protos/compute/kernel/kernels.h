// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "protos/compute/kernel/part_hash.h"
#include "protos/compute/kernel/summary_kernels.h"

namespace msitd::compute {

// Kernels::target of the scalar reference.
inline constexpr int64_t kReferenceTarget = 0;

// The kernels of one target.
struct Kernels {
  std::string_view name;
  int64_t target;  // Highway's number, by which other kernels are found.
  SummaryKernel summary;
  const PartHashFunctions* hash;
};

// Returns what this CPU can run, best first; the scalar reference, named
// "REFERENCE", is last.
std::span<const Kernels> SupportedKernels();

// Returns the kernels named by the environment variable MSITD_FORCE_TARGET
// (case does not matter), or the best ones where it is not set. A name that is
// unknown, or that this CPU cannot run, is reported on stderr and ignored. The
// choice is made at the first call.
const Kernels& ChosenKernels();

}  // namespace msitd::compute
