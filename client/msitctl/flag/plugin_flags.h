// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/ask/plugin/plugin.h"
#include "client/ask/query/interrupts.h"
#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// The number of plug-ins of one command. The daemon accepts this number of
// metrics.
inline constexpr size_t kPluginsMax = 16;

// The flags for metrics of the user.
struct PluginFlags {
  std::vector<std::string> plugins;
  std::vector<std::string> names;
  std::string python = "python3";
  std::string arrays = "numpy";
  std::string timeout;
  uint64_t pair_bytes_max = uint64_t{1} << 30;
};

// Binds --plugin and its related flags. `name_flag` is the flag for the names
// of the metrics.
void AddPluginFlags(CLI::App& verb, const std::string& name_flag,
                    PluginFlags& flags);

// Checks the flags and creates a plug-in for each --plugin. The name of a
// metric must not be in `taken`, which are the metrics of the daemon, and must
// not be that of a column of reports.
ask::Outcome StartPlugins(const PluginFlags& flags,
                          std::span<const std::string> taken,
                          ask::Interrupts& interrupts,
                          std::vector<std::unique_ptr<ask::Plugin>>& plugins);

}  // namespace msitd::msitctl
