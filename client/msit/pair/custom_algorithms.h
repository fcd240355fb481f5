// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/plugin/interpreter.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"
#include "client/msit/tensor/tensor.h"

namespace msitd::ask {
class Plugin;
}  // namespace msitd::ask

namespace msitd::msit_command {

// At most this many interpreters run in parallel with msit.
inline constexpr size_t kAlgorithmsMax = 16;

// The functions of --custom-algorithms. Each receives the golden tensor and the
// other one, flat and in float32, as tensors of torch, and returns a value (a
// number or a text) and a text for the reason. Each runs in its own
// interpreter, `python3`. Thread-compatible.
class CustomAlgorithms {
 public:
  // Starts the functions FILE.py:FUNCTION and tests them. If several functions
  // have the same name, the last one is used. Borrows `interrupts`. Returns
  // INVALID_ARGUMENT, with the cause, for a function that cannot be used, and
  // PERMISSION_DENIED for a file that is not owned by the user or that others
  // may write.
  static absl::StatusOr<CustomAlgorithms> Start(
      const std::vector<std::string>& functions, ask::Interrupts& interrupts,
      Logger& log);

  CustomAlgorithms(CustomAlgorithms&&) noexcept;
  ~CustomAlgorithms();

  // The columns, in the order of the command line.
  std::vector<std::string> names() const;

  // Returns the results of the functions, in the order of names(). `shown` is
  // the value as Python writes it. If the function failed, it is empty, and
  // `text` is the reason. Returns CANCELLED on an interrupt.
  absl::StatusOr<std::vector<ask::PairAnswer>> Measure(const Tensor& golden,
                                                       const Tensor& my);

 private:
  CustomAlgorithms();

  std::vector<std::unique_ptr<ask::Plugin>> plugins_;
};

}  // namespace msitd::msit_command
