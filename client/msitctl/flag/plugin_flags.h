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

// Most plug-ins of one command. The daemon takes as many metrics.
inline constexpr size_t kPluginsMax = 16;

// Metrics of the user, as the command line says them.
struct PluginFlags {
  std::vector<std::string> plugins;
  std::vector<std::string> names;
  std::string python = "python3";
  std::string arrays = "numpy";
  std::string timeout;
  uint64_t pair_bytes_max = uint64_t{1} << 30;
};

// Binds --plugin and the flags that go with it. `name_flag` is the flag for the
// names of the metrics.
void AddPluginFlags(CLI::App& verb, const std::string& name_flag,
                    PluginFlags& flags);

// Checks the flags and makes a plug-in of each --plugin. A metric must not have
// a name in `taken`, which are the metrics of the daemon, nor that of a column
// of reports.
ask::Outcome StartPlugins(const PluginFlags& flags,
                          std::span<const std::string> taken,
                          ask::Interrupts& interrupts,
                          std::vector<std::unique_ptr<ask::Plugin>>& plugins);

}  // namespace msitd::msitctl
