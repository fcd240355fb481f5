// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct LogitsOptions {
  std::string golden;
  std::string my;
  double cosine = 0.999;
  double kl = 0.0001;
  double l1 = 0.01;
  std::string dtype = "fp16";  // Or bf16, fp32: the type that defines an ulp.
  std::string output = "./output";
};

// Implements `msit llm logitscmp`: compares the files `*.pth` with the same
// names in two folders, with one tensor each, and writes a row for each of them
// and for each file that one side lacks. For a file that cannot be compared,
// the row has the reason. Returns NOT_FOUND if no name is in both folders.
absl::Status CompareLogits(const LogitsOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
