// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_place.h"

#include <algorithm>
#include <vector>

#include "protos/base/check.h"

namespace msitd::compare {
namespace {

using DimSizes = std::span<const int64_t>;

// Finds the dimension from `first` on that has this length. If the last two
// dimensions have it, the tensor has a value for each pair of positions, and
// `keys` is set. Returns nothing if it is ambiguous.
std::optional<size_t> FindColumns(DimSizes shape, size_t first, int64_t length,
                                  std::optional<size_t>& keys) {
  std::vector<size_t> found;
  for (size_t i = first; i < shape.size(); ++i) {
    if (shape[i] == length) found.push_back(i);
  }
  if (found.size() == 1) return found.front();
  if (found.size() == 2 && length > 1 && found[0] + 2 == shape.size() &&
      found[1] + 1 == shape.size()) {
    keys = found[1];
    return found[0];
  }
  return std::nullopt;
}

// For a batch of one dimension.
std::optional<RowPlace> FindPackedRows(DimSizes shape,
                                       const BatchShape& batch) {
  RowPlace out;
  if (shape[0] == batch.row_count) {
    out.rows = 0;
    return out;
  }
  if (shape.size() > 1 && shape[0] == 1 && shape[1] == batch.row_count) {
    out.rows = 1;
    return out;
  }
  if (shape[0] == batch.request_count) {
    out.rows = 0;
    out.is_by_request = out.is_last = true;
    return out;
  }
  return std::nullopt;
}

// For a batch of rows and columns, in a tensor with one row for each of them
// in the first dimension.
std::optional<RowPlace> FindColumnsOfRows(DimSizes shape, int64_t columns) {
  RowPlace out;
  out.rows = 0;
  if (shape.size() > 2) {
    out.columns = FindColumns(shape, 2, columns, out.keys);
    if (out.columns.has_value()) return out;
  }
  if (columns > 1 && (shape.size() <= 2 || shape[1] == 1)) {
    out.is_last = true;
    if (shape.size() > 2) out.columns = 1;
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RowPlace> FindRows(DimSizes shape, const BatchShape& batch) {
  if (shape.empty()) return std::nullopt;
  if (batch.column_count == 0) return FindPackedRows(shape, batch);
  const int64_t rows = batch.row_count;
  const int64_t columns = batch.column_count;
  RowPlace out;
  if (shape.size() > 1 && shape[0] == rows && shape[1] == columns) {
    out.rows = 0;
    out.columns = 1;
    return out;
  }
  int64_t total = 0;
  if (!__builtin_mul_overflow(rows, columns, &total) && shape[0] == total &&
      (total != rows || shape.size() < 3)) {
    out.is_flat = true;
    out.rows = 0;
    out.columns = 1;
    return out;
  }
  if (shape.size() > 1 && rows != columns && shape[0] == columns &&
      shape[1] == rows) {
    out.columns = 0;
    out.rows = 1;
    return out;
  }
  if (shape[0] == rows) return FindColumnsOfRows(shape, columns);
  if (shape.size() > 1 && shape[0] == 1) {
    out.columns = shape[1] == columns
                      ? std::optional<size_t>(1)
                      : FindColumns(shape, 2, columns, out.keys);
    if (out.columns.has_value()) return out;
  }
  if (shape[0] == columns) {
    out.columns = 0;
    return out;
  }
  return std::nullopt;
}

RowRange PositionsIn(const RowPlace& place, const RequestPiece& piece) {
  if (!place.rows.has_value() && piece.rows.size() != 1) {
    return {piece.positions.end, piece.positions.end};
  }
  if (!place.is_last) return piece.positions;
  // The last column is padding for some requests. A result for each row, as of
  // a classifier, does not depend on where its padding is.
  const bool has_last_column = !place.columns.has_value() ||
                               piece.batch.column_count == 0 ||
                               piece.columns.end == piece.batch.column_count;
  if (!has_last_column || piece.positions.size() == 0 ||
      (!place.is_by_request && piece.rows.size() != 1)) {
    return {piece.positions.end, piece.positions.end};
  }
  return {piece.positions.end - 1, piece.positions.end};
}

Gather CutPositions(Gather tensor, const RowPlace& place,
                    const RequestPiece& piece, RowRange positions) {
  if (place.is_flat) {
    std::vector<int64_t> shape = tensor.shape();
    shape[0] = piece.batch.row_count;
    shape.insert(shape.begin() + 1, piece.batch.column_count);
    tensor.Reshape(shape);
  }
  if (place.keys.has_value()) {
    tensor.Slice(*place.keys, piece.columns.first, piece.columns.end);
  }
  int64_t row_count = 1;
  if (place.rows.has_value()) {
    const RowRange rows = place.is_by_request
                              ? RowRange{piece.number, piece.number + 1}
                              : piece.rows;
    tensor.Slice(*place.rows, rows.first, rows.end);
    row_count = rows.size();
  }
  int64_t column_count = 1;
  if (place.columns.has_value() && !place.is_last) {
    tensor.Slice(*place.columns, piece.columns.first, piece.columns.end);
    column_count = piece.columns.size();
  }
  std::vector<size_t> order;
  if (place.rows.has_value()) order.push_back(*place.rows);
  if (place.columns.has_value()) order.push_back(*place.columns);
  const std::vector<size_t> batch_dims = order;
  const std::vector<int64_t> shape = tensor.shape();
  std::vector<int64_t> out = {row_count * column_count};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(batch_dims.begin(), batch_dims.end(), i) !=
        batch_dims.end()) {
      continue;
    }
    order.push_back(i);
    // Whether there is a dimension of length 1, as for the rows of a batch of
    // one or for all heads, depends on the form of the batch.
    if (shape[i] != 1) out.push_back(shape[i]);
  }
  tensor.Permute(order);
  tensor.Reshape(out);
  const int64_t first = PositionsIn(place, piece).first;
  MSITD_CHECK(first <= positions.first && positions.first <= positions.end);
  tensor.Slice(0, positions.first - first, positions.end - first);
  return tensor;
}

}  // namespace msitd::compare
