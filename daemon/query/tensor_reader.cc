// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/base/sample.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

using Code = absl::StatusCode;

absl::Status Expired(bool has_sample = false) {
  return WithReason(
      MakeStatus(Code::kFailedPrecondition,
                 "the bytes of the tensor are not kept{}",
                 has_sample ? ", but its sample is: ask for that" : ""),
      ErrorReason::kTensorExpired);
}

uint64_t SampleBytes(const storage::TensorInfo& tensor) {
  const uint64_t element_bytes = ElementBytes(tensor.dtype);
  return SampleCount(tensor.tensor_bytes / element_bytes) * element_bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenRunOf(
    storage::RunReaders& readers, const TensorKey& key) {
  auto run = readers.OpenRun(key.run);
  if (!absl::IsNotFound(run.status())) return run;
  return WithReason(
      MakeStatus(Code::kNotFound, "there is no tensor {}, or not all of it",
                 FormatTensorName(key)),
      ErrorReason::kTensorNotFound);
}

absl::StatusOr<TensorReader> TensorReader::Open(storage::RunReaders& readers,
                                                const TensorKey& key,
                                                const ByteRange& range,
                                                ReadWhat what) {
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<storage::RunReader> run,
                         OpenRunOf(readers, key));
  MSITD_ASSIGN_OR_RETURN(storage::TensorInfo tensor, run->GetTensor(key));
  const bool is_sample = what == ReadWhat::kSample;
  const auto size = static_cast<int64_t>(is_sample ? SampleBytes(tensor)
                                                   : tensor.tensor_bytes);
  if (range.offset < 0 || range.offset > size) {
    return WithMetadata(
        WithMetadata(
            WithReason(
                MakeStatus(Code::kOutOfRange,
                           "offset {} is not in 0..{}, the size of the "
                           "{}",
                           range.offset, size, is_sample ? "sample" : "tensor"),
                ErrorReason::kOffsetOutOfRange),
            "offset_bytes", std::to_string(range.offset)),
        "size_bytes", std::to_string(size));
  }
  if (range.limit < 0) {
    return WithReason(MakeStatus(Code::kInvalidArgument,
                                 "limit_bytes: {} is negative", range.limit),
                      ErrorReason::kFieldInvalid);
  }
  if (!tensor.has_bytes && !(is_sample && tensor.has_sample)) {
    return Expired(tensor.has_sample);
  }
  const int64_t rest = size - range.offset;
  const int64_t count = range.limit == 0 ? rest : std::min(range.limit, rest);
  return TensorReader(std::move(run), std::move(tensor), what,
                      static_cast<uint64_t>(range.offset),
                      static_cast<uint64_t>(range.offset + count));
}

absl::Status TensorReader::LoadPart(uint64_t part_index) {
  const auto read = run_->ReadPart(tensor_.parts[part_index], buffer_);
  if (!read.ok()) {
    return HasReason(read.status(), ErrorReason::kTensorExpired)
               ? Expired()
               : read.status();
  }
  const uint64_t expected =
      std::min(kPartBytes, tensor_.tensor_bytes - part_index * kPartBytes);
  if (read->size() != expected) {
    return WithReason(MakeStatus(Code::kDataLoss,
                                 "part {} of the tensor has {} bytes, not {}",
                                 part_index, read->size(), expected),
                      ErrorReason::kFrameCorrupt);
  }
  part_index_ = part_index;
  part_ = *read;
  return absl::OkStatus();
}

absl::Status TensorReader::LoadSample(storage::StopCheck stop) {
  sample_.clear();
  for (size_t i = 0; i < tensor_.parts.size(); ++i) {
    if (i > 0) MSITD_RETURN_IF_ERROR(stop());
    const auto read = run_->ReadSample(tensor_, i, buffer_);
    if (!read.ok()) {
      return HasReason(read.status(), ErrorReason::kTensorExpired)
                 ? Expired()
                 : read.status();
    }
    sample_.insert(sample_.end(), read->begin(), read->end());
  }
  if (sample_.size() != SampleBytes(tensor_)) {
    return WithReason(
        MakeStatus(Code::kDataLoss, "the sample has {} bytes, not {}",
                   sample_.size(), SampleBytes(tensor_)),
        ErrorReason::kFrameCorrupt);
  }
  part_ = sample_;
  return absl::OkStatus();
}

absl::StatusOr<bool> TensorReader::Next(storage::StopCheck stop, Piece& out) {
  MSITD_RETURN_IF_ERROR(stop());
  if (started_ && next_ == end_) return false;
  const bool first = !std::exchange(started_, true);
  if (next_ == end_) {
    out = {next_, {}};
    return true;
  }
  const uint64_t part_index = next_ / kPartBytes;
  if (what_ == ReadWhat::kSample) {
    if (first) MSITD_RETURN_IF_ERROR(LoadSample(stop));
  } else if (first || part_index != part_index_) {
    MSITD_RETURN_IF_ERROR(LoadPart(part_index));
  }
  const uint64_t begin = next_ % kPartBytes;
  const uint64_t bytes =
      std::min({kPieceBytesMax, end_ - next_, part_.size() - begin});
  out = {next_, part_.subspan(begin, bytes)};
  next_ += bytes;
  return true;
}

}  // namespace msitd::query
