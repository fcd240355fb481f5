// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "daemon/query/tensor_reader.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

using compute::FiniteRange;
using storage::TensorInfo;

// The index is read from disk, so its contents may be damaged.
absl::Status CheckSize(const TensorInfo& tensor) {
  if (IsValid(tensor.dtype) &&
      tensor.tensor_bytes % ElementBytes(tensor.dtype) == 0) {
    return absl::OkStatus();
  }
  return WithReason(MakeStatus(absl::StatusCode::kDataLoss,
                               "the index has a tensor of {} bytes of {}",
                               tensor.tensor_bytes, DTypeName(tensor.dtype)),
                    ErrorReason::kFrameCorrupt);
}

// Passes all bytes to `take`, in pieces of whole elements.
absl::Status ForEachPiece(
    TensorReader& reader, storage::StopCheck stop,
    absl::FunctionRef<void(std::span<const std::byte>)> take) {
  TensorReader::Piece piece;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, reader.Next(stop, piece));
    if (!found) return absl::OkStatus();
    take(piece.data);
  }
}

// Returns the minimum and maximum of the finite elements, from the summary if
// it contains them.
absl::StatusOr<FiniteRange> FiniteRangeOf(storage::RunReaders& readers,
                                          const TensorKey& key,
                                          const Summary& summary,
                                          storage::StopCheck stop) {
  FiniteRange range;
  if (summary.finite_count() == 0) return range;
  if (std::isfinite(summary.min) && std::isfinite(summary.max) &&
      summary.min <= summary.max) {
    return FiniteRange{summary.min, summary.max};
  }
  MSITD_ASSIGN_OR_RETURN(TensorReader reader,
                         TensorReader::Open(readers, key, {}));
  const TensorInfo& tensor = reader.tensor();
  MSITD_RETURN_IF_ERROR(CheckSize(tensor));
  MSITD_RETURN_IF_ERROR(
      ForEachPiece(reader, stop, [&](std::span<const std::byte> bytes) {
        compute::Widen(bytes, tensor.dtype, range);
      }));
  return range;
}

FiniteRange LimitsOf(const HistogramSpec& spec, const FiniteRange& elements) {
  if (spec.low.has_value() && spec.high.has_value()) {
    return {*spec.low, *spec.high};
  }
  if (spec.low.has_value()) {
    return {*spec.low, std::max(*spec.low, elements.high)};
  }
  if (spec.high.has_value()) {
    return {std::min(*spec.high, elements.low), *spec.high};
  }
  return elements.is_empty() ? FiniteRange{0, 0} : elements;
}

}  // namespace

absl::StatusOr<compute::Histogram> ComputeHistogram(
    storage::RunReaders& readers, const TensorKey& key,
    const HistogramSpec& spec, storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(TensorReader reader,
                         TensorReader::Open(readers, key, {}));
  const TensorInfo& tensor = reader.tensor();
  MSITD_RETURN_IF_ERROR(CheckSize(tensor));
  FiniteRange elements;
  if (!spec.low.has_value() || !spec.high.has_value()) {
    MSITD_ASSIGN_OR_RETURN(elements,
                           FiniteRangeOf(readers, key, tensor.summary, stop));
  }
  const FiniteRange limits = LimitsOf(spec, elements);
  compute::HistogramCounter counter(tensor.dtype, spec.bin_count, limits.low,
                                    limits.high);
  MSITD_RETURN_IF_ERROR(ForEachPiece(
      reader, stop,
      [&counter](std::span<const std::byte> bytes) { counter.Add(bytes); }));
  return counter.Result();
}

}  // namespace msitd::query
