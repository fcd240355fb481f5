// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"
#include "protos/base/dtype.h"
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

// Returns what the target has in such a view, in words.
std::string_view FindingOf(Rearrangement::Kind kind);

// A tensor whose elements were read, in row-major order.
struct ArrangedElements {
  std::span<const double> values;
  std::span<const int64_t> shape;
  DType dtype = DType::kUnspecified;
};

struct FoundArrangement {
  Rearrangement arrangement;
  // The norm of the difference that remains, divided by that of the golden
  // tensor.
  double error = 0;
};

// Returns the arrangement, other than rows in any order, in which all elements
// of the target agree with the golden ones. See FindRearrangement. Returns
// nothing if the tensors agree as they are.
//
// Errors: CANCELLED if the observer returns it.
absl::StatusOr<std::optional<FoundArrangement>> FindArrangement(
    const ArrangedElements& golden, const ArrangedElements& target,
    double tolerance, WorkObserver& observer);

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
