// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// A view with which the tensors of a pair agree.
struct Rearrangement {
  enum class Kind : uint8_t { kShape, kAxes, kHeads, kRopePairs, kRows };

  Kind kind = Kind::kShape;
  std::string view;
  bool is_of_golden = false;  // It applies to the golden tensor.

  friend auto operator<=>(const Rearrangement&, const Rearrangement&) = default;
};

// Maximum size of both tensors together. Larger pairs are not examined.
inline constexpr uint64_t kRearrangedBytesMax = uint64_t{8} << 20;

// Returns whether one tensor of a pair may be a rearrangement of the other:
// both are tensors of one rank with bytes, without a view, and their counts,
// extremes, sums and norms agree within a relative error.
bool MayBeRearranged(const TensorPair& pair, double tolerance);

// Reads both tensors of a pair that fails. If all elements of the target, in
// another arrangement, agree with the golden ones, returns that arrangement.
// The norm of the difference is then at most `tolerance` times that of the
// golden tensor. Arrangements that keep the place of each element are preferred
// to rows in any order.
//
// Errors: those of ElementReader; CANCELLED if the observer returns it.
absl::StatusOr<std::optional<Rearrangement>> FindRearrangement(
    const TensorPair& pair, double tolerance, storage::RunReader& golden,
    storage::RunReader& target, WorkObserver& observer);

}  // namespace msitd::compare
