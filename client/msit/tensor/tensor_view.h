// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct TensorViewOptions {
  std::string file;
  std::string operations;  // As ParseOperations takes them; may be empty.
  bool prints = false;
  std::string output;  // Empty: nothing is written.
};

// `msit tensor-view`: logs the shape and the statistics of the tensor of a
// file after the operations, the tensor itself if asked for, and writes it.
absl::Status ViewTensor(const TensorViewOptions& options, Logger& log);

}  // namespace msitd::msit_command
