// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/predicate/predicate.h"
#include "storage/face/types.h"

namespace msitd::service {

// `ListTensorsRequest.where`: a predicate on the summary of a tensor. Immutable
// and therefore thread-safe.
class TensorCondition {
 public:
  // An empty text is true for every tensor.
  //
  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID.
  static absl::StatusOr<TensorCondition> Parse(std::string_view text);

  bool Holds(const storage::TensorInfo& tensor) const;

 private:
  std::optional<predicate::Predicate> predicate_;
};

}  // namespace msitd::service
