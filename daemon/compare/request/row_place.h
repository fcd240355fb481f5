// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/compare/request/request_book.h"
#include "daemon/compare/view/gather.h"
#include "protos/base/request_rows.h"

namespace msitd::compare {

// Where the rows of a batch are in a tensor.
struct RowPlace {
  // The first dimension has all rows and columns, one after the other. The
  // dimensions below are then those after it was divided into two.
  bool is_flat = false;
  // The dimension with the rows; absent if the tensor is the same for all rows.
  std::optional<size_t> rows = {};
  // The dimension with the columns; absent if a row has one element.
  std::optional<size_t> columns = {};
  // A second dimension with the columns, such as that of the keys of an
  // attention mask.
  std::optional<size_t> keys = {};
  // The tensor only has the last position of each request.
  bool is_last = false;
  // `rows` has one element for each request instead of each row.
  bool is_by_request = false;

  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};

// Finds the rows of a batch in a tensor by its dimensions. Almost all tensors
// of a model begin with the batch and the sequence, in either order or as one
// dimension. Attention has its heads between them.
// Returns nothing if no dimension has the length of the batch, or if several
// could be the sequence. A tensor whose other dimensions happen to have these
// lengths is cut in the wrong place. Its values or shapes then differ between
// the runs, unless the batches have the same shape.
std::optional<RowPlace> FindRows(std::span<const int64_t> shape,
                                 const BatchShape& batch);

// Returns the positions of the piece that a tensor has.
RowRange PositionsIn(const RowPlace& place, const RequestPiece& piece);

// Cuts positions of a piece out of a tensor. The result has the positions as
// its first dimension, followed by the other dimensions of the tensor that are
// longer than 1.
// `tensor` must have the shape for which `place` was found. `positions` must be
// among those of PositionsIn.
Gather CutPositions(Gather tensor, const RowPlace& place,
                    const RequestPiece& piece, RowRange positions);

}  // namespace msitd::compare
