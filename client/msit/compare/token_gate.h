// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"

namespace msitd::msit_command {

// Informs the reader of one side about the tokens in the batch of the other
// side, while that is being read. Tokens ascend. Thread-safe.
class TokenGate {
 public:
  // Reports that the batch has `token`.
  void Reach(int64_t token);
  // Reports that the batch has no further token. May be called again.
  void Finish();

  // Waits until the result is known. Returns true if the batch has `token` or a
  // later one.
  bool Has(int64_t token);

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<int64_t> last_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::msit_command
