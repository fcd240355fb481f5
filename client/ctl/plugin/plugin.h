// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/ctl/plugin/interpreter.h"
#include "client/query/interrupts.h"
#include "client/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// Interpreters that a plug-in may lose, by crashes and time limits, before it
// is given up.
inline constexpr int kInterpretersLostMax = 16;

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

}  // namespace msitd::ctl
