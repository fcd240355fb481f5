// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "daemon/compute/kernel/pair_kernels.h"
#include "daemon/compute/kernel/part_hash.h"
#include "daemon/compute/kernel/summary_kernels.h"

namespace msitd::compute {

// The kernels of one target.
struct Kernels {
  std::string_view name;
  SummaryKernel summary;
  PairKernel pair;
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
