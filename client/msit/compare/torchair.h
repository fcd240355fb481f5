// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

// `msit llm compare` of what TorchAir dumped.
namespace msitd::msit_command {

class CustomAlgorithms;

// Returns the graphs below `folder` that GE wrote before it optimized them, by
// their numbers; of one rank, if one is given. Empty if `folder` is none.
std::vector<std::string> FindGraphs(const std::string& folder,
                                    std::optional<int32_t> rank);

struct TorchairOptions {
  // Absolute, without a slash at the end. The folders of ranks,
  // worldsize<W>_global_rank<R>, lie in them or together further below.
  std::string golden;
  std::string my;
  std::string output;
  // Nothing: all that both sides have.
  std::optional<int32_t> rank;
  // Not null.
  CustomAlgorithms* algorithms = nullptr;
  // Reports what msit reports, with its mistakes.
  bool is_compat = false;
};

// Compares a dump of GE with one of FX or of GE, and writes a report of 24
// columns, and those of the user's functions, for each rank and graph.
// INVALID_ARGUMENT if the sides have no rank in common, a folder is no dump, or
// one has folders of ranks in several places.
absl::Status CompareTorchair(const TorchairOptions& options,
                             ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
