// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/interpreter.h"
#include "client/ctl/interrupts.h"
#include "client/ctl/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// Plug-ins of one command; the daemon takes as many metrics.
inline constexpr size_t kPluginsMax = 16;

// Interpreters that a plug-in may lose, by crashes and time limits, before it
// is given up.
inline constexpr int kInterpretersLostMax = 16;

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

// One function of the user, and the name of its metric.
struct PluginSpec {
  std::string file;
  std::string function;
  std::string metric;
};

// Takes FILE.py:FUNCTION apart; the metric has the name of the function.
//
// Errors: INVALID_ARGUMENT.
absl::StatusOr<PluginSpec> ParsePlugin(std::string_view text);

// Measures pairs with one function. A pair that brings its interpreter down, or
// takes too long, has that for a text, and the next one gets a new interpreter.
// Thread-compatible.
class Plugin {
 public:
  // Starts an interpreter and tries the function out. Borrows `interrupts`.
  static Outcome Create(const PluginSpec& spec,
                        const InterpreterOptions& options,
                        Interrupts& interrupts, std::unique_ptr<Plugin>& out);

  // Fills in value and text. The one failure is an interrupt.
  Outcome Measure(const TensorPairBytes& pair, v1::CustomMetric& metric);

  const std::string& metric() const { return metric_; }

  // Why no pair is measured any more; empty while they are.
  const std::string& given_up() const { return given_up_; }

 private:
  Plugin(const PluginSpec& spec, const InterpreterOptions& options,
         Interrupts& interrupts)
      : metric_(spec.metric), options_(options), interrupts_(interrupts) {}

  // Has an interpreter ready, unless the plug-in is given up.
  absl::Status Prepare();

  const std::string metric_;
  const InterpreterOptions options_;
  Interrupts& interrupts_;
  std::unique_ptr<Interpreter> interpreter_;
  int lost_count_ = 0;
  std::string given_up_;
};

// Checks the flags and makes a plug-in of each --plugin. No metric may be
// called like one of `taken`, which are those of the daemon, or like a column
// of reports.
Outcome StartPlugins(const PluginFlags& flags,
                     std::span<const std::string> taken, Interrupts& interrupts,
                     std::vector<std::unique_ptr<Plugin>>& plugins);

}  // namespace msitd::ctl
