// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_reader.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::Status NotEquallyMany(uint64_t targets, DType target_dtype,
                            uint64_t goldens, DType golden_dtype) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "target and golden tensor: {} of {} and {} of {} are not "
                    "equally many elements",
                    targets, DTypeName(target_dtype), goldens,
                    DTypeName(golden_dtype));
}

// Computes all requested metrics in a single pass over the bytes.
class PairPasses {
 public:
  PairPasses(DType target, DType golden, const compute::ElementRequest& request)
      : pairs_(target, golden, request.row_shape()) {
    if (request.sets != 0) elements_.emplace(target, golden, request);
    if (request.closing.has_value()) open_.emplace(target, golden, request);
  }

  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden) {
    pairs_.Update(target, golden);
    if (elements_.has_value()) elements_->Update(target, golden);
    if (open_.has_value()) open_->Update(target, golden);
  }

  PairMeasurement Finish() const {
    PairMeasurement out;
    out.metrics = pairs_.Finish();
    if (elements_.has_value()) out.elements = elements_->Finish();
    if (open_.has_value()) out.open = open_->Finish();
    if (out.open.has_value()) {
      // Closed positions have no weight in a softmax, so that the divergence of
      // all positions is also that of the open ones.
      constexpr auto kKl = static_cast<size_t>(compute::Metric::kKl);
      out.open->metrics.values[kKl] = out.metrics.values[kKl];
    }
    return out;
  }

 private:
  compute::PairAccumulator pairs_;
  std::optional<compute::ElementAccumulator> elements_;
  std::optional<compute::OpenPairAccumulator> open_;
};

absl::StatusOr<std::span<const std::byte>> ReadAhead(
    const storage::TensorInfo& tensor, std::string_view label,
    const PartsAhead& ahead, WorkObserver& observer) {
  if (!HasAllParts(tensor)) return PartsDoNotFit(tensor, label);
  const auto bytes = ahead.batch->Read(ahead.first);
  if (!bytes.ok()) return Annotate(bytes.status(), label);
  if (bytes->size() != tensor.tensor_bytes) {
    return PartsDoNotFit(tensor, label);
  }
  observer.OnRead(bytes->size());
  return *bytes;
}

}  // namespace

absl::StatusOr<PairMeasurement> PairReader::Measure(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, WorkObserver& observer) {
  auto out = MeasureStreams(target, golden, request, observer);
  target_buffers_.ReleasePiece();
  golden_buffers_.ReleasePiece();
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::MeasureStreams(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorStream> targets,
                         TensorStream::Open(target, observer, target_buffers_));
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorStream> goldens,
                         TensorStream::Open(golden, observer, golden_buffers_));
  uint64_t elements = targets->element_count();
  if (elements != goldens->element_count()) {
    return NotEquallyMany(elements, targets->dtype(), goldens->element_count(),
                          goldens->dtype());
  }
  PairPasses passes(targets->dtype(), goldens->dtype(), request);
  while (elements > 0) {
    MSITD_RETURN_IF_ERROR(observer.Check());
    MSITD_RETURN_IF_ERROR(targets->Fill());
    MSITD_RETURN_IF_ERROR(goldens->Fill());
    const uint64_t step =
        std::min(targets->rest_count(), goldens->rest_count());
    const auto target_piece = targets->Take(step);
    const auto golden_piece = goldens->Take(step);
    passes.Update(target_piece, golden_piece);
    elements -= step;
  }
  PairMeasurement out = passes.Finish();
  if (target.has_summary()) {
    out.target_summary = targets->summary();
  }
  if (golden.has_summary()) {
    out.golden_summary = goldens->summary();
  }
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::MeasureAhead(
    const storage::TensorInfo& target, const storage::TensorInfo& golden,
    const PairAhead& ahead, const compute::ElementRequest& request,
    WorkObserver& observer) {
  MSITD_RETURN_IF_ERROR(observer.Check());
  MSITD_ASSIGN_OR_RETURN(
      const auto target_bytes,
      ReadAhead(target, "target tensor", ahead.target, observer));
  MSITD_ASSIGN_OR_RETURN(
      const auto golden_bytes,
      ReadAhead(golden, "golden tensor", ahead.golden, observer));
  const uint64_t targets = target_bytes.size() / ElementBytes(target.dtype);
  const uint64_t goldens = golden_bytes.size() / ElementBytes(golden.dtype);
  if (targets != goldens) {
    return NotEquallyMany(targets, target.dtype, goldens, golden.dtype);
  }
  PairPasses passes(target.dtype, golden.dtype, request);
  passes.Update(target_bytes, golden_bytes);
  return passes.Finish();
}

}  // namespace msitd::compare
