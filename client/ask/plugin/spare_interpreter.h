// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/plugin/interpreter.h"

namespace msitd::ask {

// Most interpreters that a function may lose to crashes and time limits before
// it is given up.
inline constexpr int kInterpretersLostMax = 16;

// An interpreter that is started anew when it is lost. Thread-compatible.
class SpareInterpreter {
 public:
  SpareInterpreter(InterpreterOptions options, StopCheck is_stopped)
      : options_(std::move(options)), is_stopped_(std::move(is_stopped)) {}

  // Starts the first one. Errors of Interpreter::Start.
  absl::Status Start();

  // Null once the function is given up. CANCELLED by `is_stopped`.
  absl::StatusOr<Interpreter*> Get();

  // The one that Get returned is of no more use.
  void Lose();

  // Those that were lost so far do not count any more.
  void ForgetLost() { lost_count_ = 0; }

  // Why it is given up; empty while it is not.
  const std::string& given_up() const { return given_up_; }

 private:
  const InterpreterOptions options_;
  const StopCheck is_stopped_;
  std::unique_ptr<Interpreter> interpreter_;
  int lost_count_ = 0;
  std::string given_up_;
};

}  // namespace msitd::ask
