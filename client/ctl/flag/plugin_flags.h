// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/ctl/plugin/plugin.h"
#include "client/query/interrupts.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Plug-ins of one command; the daemon takes as many metrics.
inline constexpr size_t kPluginsMax = 16;

// Own metrics, as the command line says them.
struct PluginFlags {
  std::vector<std::string> plugins;
  std::vector<std::string> names;
  std::string python = "python3";
  std::string arrays = "numpy";
  std::string timeout;
  uint64_t pair_bytes_max = uint64_t{1} << 30;
};

// Binds --plugin and what goes with it; the names of metrics to `name_flag`.
void AddPluginFlags(CLI::App& verb, const std::string& name_flag,
                    PluginFlags& flags);

// Checks the flags and makes a plug-in of each --plugin. No metric may be
// called like one of `taken`, which are those of the daemon, or like a column
// of reports.
Outcome StartPlugins(const PluginFlags& flags,
                     std::span<const std::string> taken, Interrupts& interrupts,
                     std::vector<std::unique_ptr<Plugin>>& plugins);

}  // namespace msitd::ctl
