// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/ask/plugin/interpreter.h"
#include "client/ask/plugin/spare_interpreter.h"
#include "client/ask/query/interrupts.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// One function of the user, and the name of its metric.
struct PluginSpec {
  std::string file;
  std::string function;
  std::string metric;
  std::string flag = "--plugin";  // The flag that errors name.
};

// Parses FILE.py:FUNCTION. The metric is named after the function. `flag` is
// what errors name.
//
// Errors: INVALID_ARGUMENT.
absl::StatusOr<PluginSpec> ParsePlugin(std::string_view text,
                                       std::string_view flag = "--plugin");

// Returns the outcome for an error of Interpreter::Start.
Outcome PluginStartError(const PluginSpec& spec, const absl::Status& status);

// Measures pairs with one function. If a pair crashes its interpreter or takes
// too long, its text reports this, and the next pair gets a new interpreter.
// Thread-compatible.
class Plugin {
 public:
  // Starts an interpreter and tests the function. Borrows `interrupts`.
  static Outcome Create(const PluginSpec& spec,
                        const InterpreterOptions& options,
                        Interrupts& interrupts, std::unique_ptr<Plugin>& out);

  // Fills in value and text. Fails only on an interrupt.
  Outcome Measure(const TensorPairBytes& pair, v1::CustomMetric& metric);
  Outcome Measure(const TensorPairBytes& pair, PairAnswer& answer);

  const std::string& metric() const { return metric_; }

  // Why no more pairs are measured; empty while they are.
  const std::string& given_up() const { return given_up_; }

 private:
  Plugin(const PluginSpec& spec, const InterpreterOptions& options,
         Interrupts& interrupts);

  const std::string metric_;
  SpareInterpreter interpreter_;
  std::string given_up_;
};

}  // namespace msitd::ask
