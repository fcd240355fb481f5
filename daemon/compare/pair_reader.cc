// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/pair_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Both sides are cut at whole parts, hence at whole blocks, whatever the
// element types are: no cut changes a bit of the metrics.
static_assert(kPartBytes / 16 % compute::PairAccumulator::kPairBlockElements ==
              0);

// The bytes of one side, part after part.
class PartStream {
 public:
  PartStream(std::string_view side, const storage::TensorInfo& tensor,
             storage::ChunkStore& store, AlignedBuffer& buffer)
      : side_(side),
        tensor_(tensor),
        element_bytes_(ElementBytes(tensor.dtype)),
        store_(store),
        buffer_(buffer) {}

  // The index is on disk like everything else: what it says is checked once
  // here, since the loop below relies on it.
  absl::Status CheckParts() const {
    bool whole = tensor_.parts.size() == chunk::PartCount(tensor_.tensor_bytes);
    uint64_t rest = tensor_.tensor_bytes;
    for (const storage::PartLocation& part : tensor_.parts) {
      whole = whole && part.bytes == std::min(rest, kPartBytes);
      rest -= std::min(rest, part.bytes);
    }
    whole = whole && rest == 0 && element_bytes_ != 0 &&
            tensor_.tensor_bytes % element_bytes_ == 0;
    if (whole) return absl::OkStatus();
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{} tensor: its {} parts do not make up its {} bytes",
                      side_, tensor_.parts.size(), tensor_.tensor_bytes);
  }

  // Reads the next part once the one before is used up. Returns the bytes read.
  absl::StatusOr<uint64_t> Fill() {
    if (!rest_.empty()) return 0;
    const storage::PartLocation& part = tensor_.parts[next_part_++];
    auto bytes = store_.ReadPart(part, buffer_);
    if (!bytes.ok()) {
      return Annotate(bytes.status(), fmt::format("{} tensor", side_));
    }
    if (bytes->size() != part.bytes) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "{} tensor: part of {} bytes where {} were stored",
                        side_, bytes->size(), part.bytes);
    }
    rest_ = *bytes;
    return bytes->size();
  }

  uint64_t element_count() const { return rest_.size() / element_bytes_; }

  std::span<const std::byte> Take(uint64_t elements) {
    const auto out = rest_.first(elements * element_bytes_);
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  const std::string_view side_;
  const storage::TensorInfo& tensor_;
  const uint64_t element_bytes_;
  storage::ChunkStore& store_;
  AlignedBuffer& buffer_;
  size_t next_part_ = 0;
  std::span<const std::byte> rest_;
};

}  // namespace

absl::StatusOr<PairMeasurement> PairReader::Measure(
    const storage::TensorInfo& target, const storage::TensorInfo& golden,
    const compute::ElementRequest& request, ComparisonObserver& observer) {
  PartStream target_parts("target", target, store_, target_buffer_);
  PartStream golden_parts("golden", golden, store_, golden_buffer_);
  MSITD_RETURN_IF_ERROR(target_parts.CheckParts());
  MSITD_RETURN_IF_ERROR(golden_parts.CheckParts());
  uint64_t elements = target.tensor_bytes / ElementBytes(target.dtype);
  if (elements != golden.tensor_bytes / ElementBytes(golden.dtype)) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "target and golden tensor: {} bytes of {} and {} bytes "
                      "of {} are not equally many elements",
                      target.tensor_bytes, DTypeName(target.dtype),
                      golden.tensor_bytes, DTypeName(golden.dtype));
  }
  compute::PairAccumulator accumulator(target.dtype, golden.dtype);
  std::optional<compute::ElementAccumulator> element_accumulator;
  if (request.sets != 0) {
    element_accumulator.emplace(target.dtype, golden.dtype, request);
  }
  while (elements > 0) {
    if (observer.IsCancelled()) return absl::CancelledError("cancelled");
    MSITD_ASSIGN_OR_RETURN(const uint64_t target_bytes, target_parts.Fill());
    MSITD_ASSIGN_OR_RETURN(const uint64_t golden_bytes, golden_parts.Fill());
    observer.OnRead(target_bytes + golden_bytes);
    const uint64_t step =
        std::min(target_parts.element_count(), golden_parts.element_count());
    const auto target_piece = target_parts.Take(step);
    const auto golden_piece = golden_parts.Take(step);
    accumulator.Update(target_piece, golden_piece);
    if (element_accumulator.has_value()) {
      element_accumulator->Update(target_piece, golden_piece);
    }
    elements -= step;
  }
  PairMeasurement out;
  out.metrics = accumulator.Finish();
  if (element_accumulator.has_value()) {
    out.elements = element_accumulator->Finish();
  }
  return out;
}

}  // namespace msitd::compare
