// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/view/gather.h"
#include "daemon/compare/view/view_step.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// Shape and type of a tensor that a view reads.
struct ViewLeaf {
  std::vector<int64_t> shape;
  DType dtype = DType::kUnspecified;
};

// How to read what a tensor is seen as.
struct ViewPlan {
  // How an element follows from those of the terms.
  enum class Kind : uint8_t {
    kGather,      // It is that of the only term.
    kSum,         // Their sum.
    kDequantize,  // The first one, less the zero point, times the scales.
  };

  Kind kind = Kind::kGather;
  // All terms have the shape of the view.
  std::vector<Gather> terms;
  // For kDequantize: the term that has zero points, or 0 if none has them.
  size_t zero_term = 0;
  std::vector<DType> term_dtypes;  // Type of the tensors of each term.
  std::vector<int64_t> shape;
  // Type of the elements: that of the tensors or, if they are computed, float64
  // or float32.
  DType dtype = DType::kUnspecified;
  // The dimension whose positions may be in any order; see any_order.h. The
  // terms have the elements in the order of the tensors.
  std::optional<size_t> any_order = {};

  bool is_computed() const { return kind != Kind::kGather; }
  // True if the view changes nothing but the shape of the first tensor.
  bool is_identity() const {
    return !is_computed() && terms.front().is_identity();
  }
  // True if the view has exactly the elements of its tensors.
  bool keeps_all() const { return !is_computed() && terms.front().keeps_all(); }
};

// A plan that views of tensors of equal shapes and types share.
using SharedPlan = std::shared_ptr<const ViewPlan>;

// Returns the names of the tensors that the steps read in addition to the one
// that they apply to.
std::vector<LeafName> LeafNamesOf(std::span<const ViewStep> steps);

// Applies steps to tensors: the first leaf is the tensor that the view applies
// to, the others are those of LeafNamesOf. Dimensions of leaves are not
// negative.
//
// Errors: FAILED_PRECONDITION if a step does not fit, with the step, the shape
// before it and the reason. Example: `permute(1,0) does not fit [2,3,4]: it has
// 3 dimensions`.
absl::StatusOr<ViewPlan> MakeViewPlan(std::span<const ViewStep> steps,
                                      std::span<const ViewLeaf> leaves);

}  // namespace msitd::compare
