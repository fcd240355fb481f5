// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"

namespace msitd::msit_command {

// Tells who reads one side which tokens the batch of the other side has, while
// that is read. Tokens ascend. Thread-safe.
class TokenGate {
 public:
  // The batch has `token`.
  void Reach(int64_t token);
  // It has no further one. May come again.
  void Finish();

  // Waits until that is known: true if the batch has `token`, or a later one.
  bool Has(int64_t token);

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<int64_t> last_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::msit_command
