// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/foreign/match/match_options.h"

namespace msitd::msitctl {

// The flags that specify how the tensors of other tools are paired.
struct MatchFlags {
  std::string matcher = "auto";  // Or "none", or MatcherName.
  bool is_compat = false;
  std::string level = "all";
  std::string op_mapping_file;
  // Files of msprobe.
  std::string data_mapping;
  std::string cell_mapping;
  std::string api_mapping;
  std::string layer_mapping;
  std::string ignore_table;
};

// Sets `matcher` to the one that the other flags require. Returns a usage error
// if another one was selected.
ask::Outcome SettleMatcher(MatchFlags& flags);

void AddMatchFlags(CLI::App& verb, MatchFlags& flags);

// Fills in `options`, and reads the files.
ask::Outcome ToMatchOptions(const MatchFlags& flags,
                            match::MatchOptions& options);

}  // namespace msitd::msitctl
