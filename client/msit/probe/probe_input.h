// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace msitd::msit_command {

// The paths in the JSON that early releases of msprobe require for `compare`.
struct ProbeInput {
  std::string target;  // npu_path.
  std::string golden;  // bench_path.
};

// Reads the JSON of `compare -i`. Other members, such as `stack_path`, are
// ignored, because stacks are next to the dump. Errors: INVALID_ARGUMENT with
// the path if it is not JSON or lacks a path; errors of reading it.
absl::StatusOr<ProbeInput> ReadProbeInput(const std::string& path);

}  // namespace msitd::msit_command
