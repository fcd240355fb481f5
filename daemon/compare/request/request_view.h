// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/request/request_join.h"
#include "daemon/compare/request/row_place.h"
#include "daemon/compare/request/row_plans.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/view/shared_tensors.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/base/request_rows.h"

namespace msitd::compare {

// Maximum number of recorded tensors that one side of a row reads. Each of them
// may have a part of 4 MiB in memory while it is read.
inline constexpr size_t kRequestLeavesMax = 256;

// A tensor of one op at several tokens of a run, and the positions of a request
// that are wanted of it. The tensors may have views; the rows are then those of
// the viewed tensors.
//
// Thread-compatible. Borrows the lists of tensors and the ranges.
class RequestTensor {
 public:
  // Adds the tensor that has the positions of a range: number `number` of
  // `tensors`. Ranges are added in ascending order.
  void Add(const SharedTensors& tensors, size_t number,
           const PieceRange& range);

  // The positions that the tensors have, ascending. They are fewer than wanted
  // if a token lacks the tensor, or if the tensor only has the last position of
  // each request.
  std::span<const RowRange> positions() const { return positions_; }

  // Returns the tensor that consists of these positions, which must be among
  // positions(). Its first dimension is the position; see CutPositions. If the
  // view of a tensor has a problem, a tensor has no rows of the batch, or their
  // shapes, types or computations differ, the view has that as its problem.
  // `plans` has the plans of the other tensors of the part.
  LogicalTensor View(std::span<const RowRange> positions,
                     RowPlans& plans) const;

  // Returns the tensor with a view that has this problem.
  LogicalTensor Refuse(const std::string& problem) const;

  // The tensors only have the last position of each forward.
  bool is_last() const { return is_last_; }
  // The last dimension may be that of the keys of attention, whose length
  // includes padding.
  bool may_have_keys() const { return may_have_keys_; }

 private:
  struct Source {
    const SharedTensors* tensors = nullptr;
    size_t number = 0;
    const PieceRange* range = nullptr;
    std::optional<RowPlace> place = {};
    // The positions that the tensor has. Those of `range` without a place.
    RowRange positions = {};

    const LogicalTensor& tensor() const { return (*tensors)[number]; }
    // Returns the recorded tensors that the tensor consists of.
    SharedTensors Recorded() const;
  };
  // Positions to read from a source, whose first leaf has this number.
  struct Cut {
    const Source* source = nullptr;
    RowRange positions;
    uint32_t first_leaf = 0;
  };

  // Returns the parts of the sources that have these positions. Sets the
  // recorded tensors that they read.
  std::vector<Cut> CutsOf(std::span<const RowRange> positions,
                          SharedTensors& leaves) const;
  static absl::StatusOr<ViewPlan> PlanOf(std::span<const Cut> cuts,
                                         std::span<const ViewLeaf> leaves);
  // Adds all that PlanOf depends on to a key.
  static void FillKey(std::span<const Cut> cuts, const SharedTensors& leaves,
                      bool is_read, PlanKey& out);

  std::vector<Source> sources_;
  std::vector<RowRange> positions_;
  std::string problem_;  // The first one of the views of the tensors.
  bool is_last_ = true;
  bool may_have_keys_ = true;
};

// Returns the positions that both lists have. Both ascend and do not overlap.
std::vector<RowRange> CommonPositions(std::span<const RowRange> a,
                                      std::span<const RowRange> b);

uint64_t CountPositions(std::span<const RowRange> positions);

// Returns text such as `positions 0-4, 7`.
std::string PositionsText(std::span<const RowRange> positions);

}  // namespace msitd::compare
