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
  std::string dtype = "fp16";  // Or bf16, fp32: what an ulp is of.
  std::string output = "./output";
};

// `msit llm logitscmp`: compares the files `*.pth` of the same names in two
// folders, with one tensor each, and writes a row for each of them and for each
// file that one side lacks. A file that cannot be compared is a row that says
// why. NOT_FOUND if no name is in both folders.
absl::Status CompareLogits(const LogitsOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
