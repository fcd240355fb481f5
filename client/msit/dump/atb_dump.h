// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/msit/command/launch.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

// The flags of `msit llm dump`, as they were written.
struct AtbDumpOptions {
  std::string command;
  std::string output = "./";
  std::string config;
  std::string ids;
  std::string range = "0,0";
  std::string ops;
  std::string device;
  std::string seed;
  std::string log_level = "info";
  std::vector<std::string> types = {"tensor", "model"};
  bool saves_descriptions_only = false;
  bool saves_tiling = false;
  bool links_equal_files = false;
  bool saves_children = true;
  int time = 3;  // 0 before, 1 after, 2 both, 3 inputs before, outputs after.
  int part = 2;  // 0 inputs, 1 outputs, 2 both.
};

// Checks of flags. Each returns why the text is invalid, or an empty text.
std::string CheckIds(const std::string& text);     // "2,3_1,4_1_0"
std::string CheckRange(const std::string& text);   // "0,0,4,8"
std::string CheckNumber(const std::string& text);  // "0", "12"

// Adds the variables that enable deterministic computing.
void AddDeterminism(const std::string& seed, ask::Environment& environment);

// Returns the environment of the probe of ATB for these flags, without
// LD_PRELOAD.
ask::Environment AtbEnvironment(const AtbDumpOptions& options);

// Implements `msit llm dump`: runs a command in which the probe of the CANN
// toolkit writes tensors of ATB. Returns the command's exit code. Returns
// NOT_FOUND if the toolkit, its probe or ATB is missing, or an error of
// launch.h.
absl::StatusOr<int> DumpAtb(const AtbDumpOptions& options, Logger& log);

}  // namespace msitd::msit_command
