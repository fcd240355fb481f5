// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/plugin/interpreter.h"

namespace msitd::ask {

// The number of interpreters that a function may lose to crashes and time
// limits before it is given up.
inline constexpr int kInterpretersLostMax = 16;

// An interpreter that is replaced when it is lost. Thread-compatible.
class SpareInterpreter {
 public:
  SpareInterpreter(InterpreterOptions options, StopCheck is_stopped)
      : options_(std::move(options)), is_stopped_(std::move(is_stopped)) {}

  // Starts the first interpreter. Returns the errors of Interpreter::Start.
  absl::Status Start();

  // Null once the function is given up. CANCELLED by `is_stopped`.
  absl::StatusOr<Interpreter*> Get();

  // Reports that the interpreter returned by Get can no longer be used.
  void Lose();

  // Resets the count of lost interpreters.
  void ForgetLost() { lost_count_ = 0; }

  // Why the function was given up; empty until then.
  const std::string& given_up() const { return given_up_; }

 private:
  const InterpreterOptions options_;
  const StopCheck is_stopped_;
  std::unique_ptr<Interpreter> interpreter_;
  int lost_count_ = 0;
  std::string given_up_;
};

}  // namespace msitd::ask
