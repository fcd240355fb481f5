// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct TensorViewOptions {
  std::string file;
  std::string operations;  // In the syntax of ParseOperations; may be empty.
  bool prints = false;
  std::string output;  // Empty: nothing is written.
};

// Implements `msit tensor-view`: logs the shape and the statistics of a file's
// tensor after the operations, logs the tensor itself on request, and writes
// it.
absl::Status ViewTensor(const TensorViewOptions& options, Logger& log);

}  // namespace msitd::msit_command
