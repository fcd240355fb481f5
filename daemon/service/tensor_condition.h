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

  // Like Holds, but judges a record of kind statistics by the values that it
  // states. nullopt if the result depends on a value that is not stated.
  std::optional<bool> Evaluate(const storage::TensorInfo& tensor) const;

  // Returns whether both conditions were parsed to the same comparisons.
  friend bool operator==(const TensorCondition&,
                         const TensorCondition&) = default;

 private:
  std::optional<predicate::Predicate> predicate_;
};

}  // namespace msitd::service
