// SPDX-License-Identifier: Apache-2.0
#include "client/ask/plugin/spare_interpreter.h"

#include <fmt/format.h>

#include "protos/status/status.h"

namespace msitd::ask {

absl::Status SpareInterpreter::Start() {
  MSITD_ASSIGN_OR_RETURN(interpreter_,
                         Interpreter::Start(options_, is_stopped_));
  return absl::OkStatus();
}

absl::StatusOr<Interpreter*> SpareInterpreter::Get() {
  if (interpreter_ != nullptr || !given_up_.empty()) return interpreter_.get();
  if (lost_count_ > kInterpretersLostMax) {
    given_up_ = fmt::format("{} earlier interpreters ended or took too long",
                            lost_count_);
    return nullptr;
  }
  const absl::Status started = Start();
  if (absl::IsCancelled(started)) return started;
  if (!started.ok()) {
    given_up_ = fmt::format("no new interpreter: {}", Message(started));
  }
  return interpreter_.get();
}

void SpareInterpreter::Lose() {
  interpreter_.reset();
  ++lost_count_;
}

}  // namespace msitd::ask
