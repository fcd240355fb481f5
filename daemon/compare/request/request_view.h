// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/compare/request/request_join.h"
#include "daemon/compare/shard/assembly.h"
#include "protos/base/request_rows.h"

namespace msitd::compare {

// A tensor of one op at several tokens of a run, and the positions of a request
// that are wanted of it.
//
// Thread-compatible. Borrows the tensors.
class RequestTensor {
 public:
  // Adds the tensor that has the positions of a range. Ranges are added in
  // ascending order.
  void Add(const LogicalTensor& tensor, const PieceRange& range);

  // The positions that the tensors have, ascending. They are fewer than wanted
  // if a token lacks the tensor, or if the tensor only has the last position of
  // each request.
  std::vector<RowRange> Positions() const;

  // Returns the tensor that consists of these positions, which must be among
  // Positions(). Its first dimension is the position; see CutPositions. If a
  // tensor has no rows of the batch, or their shapes or types differ, the view
  // has that as its problem.
  LogicalTensor View(const std::vector<RowRange>& positions) const;

  // Returns the tensor with a view that has this problem.
  LogicalTensor Refuse(const std::string& problem) const;

  // The tensors only have the last position of each forward.
  bool is_last() const { return is_last_; }
  // The last dimension may be that of the keys of attention, whose length
  // includes padding.
  bool may_have_keys() const { return may_have_keys_; }

 private:
  struct Source {
    const LogicalTensor* tensor = nullptr;
    PieceRange range;
    // The positions that the tensor has; empty if it has no rows of the batch.
    RowRange positions;
  };

  std::vector<Source> sources_;
  bool is_last_ = true;
  bool may_have_keys_ = true;
};

// Returns the positions that both lists have. Both ascend and do not overlap.
std::vector<RowRange> CommonPositions(const std::vector<RowRange>& a,
                                      const std::vector<RowRange>& b);

uint64_t CountPositions(const std::vector<RowRange>& positions);

// Returns text such as `positions 0-4, 7`.
std::string PositionsText(const std::vector<RowRange>& positions);

}  // namespace msitd::compare
