// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

// `msit llm compare` for dumps of TorchAir.
namespace msitd::msit_command {

class CustomAlgorithms;

// Returns the graphs below `folder` that GE wrote before it optimized them, by
// their numbers; only those of `rank` if it is given. Empty if `folder` is not
// a folder.
std::vector<std::string> FindGraphs(const std::string& folder,
                                    std::optional<int32_t> rank);

struct TorchairOptions {
  // Absolute, without a trailing slash. The folders of ranks,
  // worldsize<W>_global_rank<R>, are directly in them or together in a
  // subfolder.
  std::string golden;
  std::string my;
  std::string output;
  // Nothing: all ranks that both sides have.
  std::optional<int32_t> rank;
  // Not null.
  CustomAlgorithms* algorithms = nullptr;
  // Reproduces the report of msit with its mistakes.
  bool is_compat = false;
};

// Compares a dump of GE with one of FX or of GE, and writes a report with 24
// columns, and those of the user's functions, for each rank and graph. Returns
// INVALID_ARGUMENT if the sides have no rank in common, a folder is not a dump,
// or one has folders of ranks in several places.
absl::Status CompareTorchair(const TorchairOptions& options,
                             ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
