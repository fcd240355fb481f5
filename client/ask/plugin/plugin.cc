// SPDX-License-Identifier: Apache-2.0
#include "client/ask/plugin/plugin.h"

#include <fmt/format.h>

#include <utility>

#include "protos/status/status.h"

namespace msitd::ask {

Outcome PluginStartError(const PluginSpec& spec, const absl::Status& status) {
  if (absl::IsCancelled(status)) return Interrupted();
  const std::string line =
      fmt::format("{} {}: {}", spec.flag, spec.file, Message(status));
  // If an interpreter ends or hangs while it loads the file, the file is the
  // cause.
  const bool is_of_file =
      absl::IsInvalidArgument(status) || absl::IsUnavailable(status) ||
      absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
  return is_of_file ? UsageError(line) : LocalError(line);
}

absl::StatusOr<PluginSpec> ParsePlugin(std::string_view text,
                                       std::string_view flag) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 ||
      colon + 1 == text.size()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} \"{}\" is not FILE.py:FUNCTION", flag, text);
  }
  const std::string function(text.substr(colon + 1));
  return PluginSpec{std::string(text.substr(0, colon)), function, function,
                    std::string(flag)};
}

Plugin::Plugin(const PluginSpec& spec, const InterpreterOptions& options,
               Interrupts& interrupts)
    : metric_(spec.metric), interpreter_(options, [&interrupts] {
        return interrupts.interrupted();
      }) {}

Outcome Plugin::Create(const PluginSpec& spec,
                       const InterpreterOptions& options,
                       Interrupts& interrupts, std::unique_ptr<Plugin>& out) {
  out.reset(new Plugin(spec, options, interrupts));
  const absl::Status started = out->interpreter_.Start();
  return started.ok() ? Outcome() : PluginStartError(spec, started);
}

Outcome Plugin::Measure(const TensorPairBytes& pair, PairAnswer& answer) {
  answer = {};
  const auto interpreter = interpreter_.Get();
  if (!interpreter.ok()) return Interrupted();
  if (*interpreter == nullptr) {
    given_up_ = AnswerText("not measured: " + interpreter_.given_up());
    answer.text = given_up_;
    return {};
  }
  auto measured = (*interpreter)->Measure(pair);
  if (absl::IsCancelled(measured.status())) return Interrupted();
  if (!measured.ok()) {
    interpreter_.Lose();
    answer.text = AnswerText(Message(measured.status()));
    return {};
  }
  answer = *std::move(measured);
  return {};
}

Outcome Plugin::Measure(const TensorPairBytes& pair, v1::CustomMetric& metric) {
  PairAnswer answer;
  MSITCTL_RETURN_IF_FAILED(Measure(pair, answer));
  if (answer.has_value) metric.set_value(answer.value);
  metric.set_text(std::move(answer.text));
  return {};
}

}  // namespace msitd::ask
