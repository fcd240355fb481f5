// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

using Code = absl::StatusCode;

absl::Status Expired() {
  return WithReason(MakeStatus(Code::kFailedPrecondition,
                               "the bytes of the tensor are not kept"),
                    "TENSOR_EXPIRED");
}

}  // namespace

absl::StatusOr<TensorReader> TensorReader::Open(storage::ChunkStore& store,
                                                const TensorKey& key,
                                                const ByteRange& range) {
  MSITD_ASSIGN_OR_RETURN(storage::TensorInfo tensor, store.GetTensor(key));
  const auto size = static_cast<int64_t>(tensor.tensor_bytes);
  if (range.offset < 0 || range.offset > size) {
    return WithMetadata(
        WithMetadata(
            WithReason(MakeStatus(Code::kOutOfRange,
                                  "offset {} is not in 0..{}, the size of the "
                                  "tensor",
                                  range.offset, size),
                       "OFFSET_OUT_OF_RANGE"),
            "offset_bytes", std::to_string(range.offset)),
        "size_bytes", std::to_string(size));
  }
  if (range.limit < 0) {
    return WithReason(MakeStatus(Code::kInvalidArgument,
                                 "limit_bytes: {} is negative", range.limit),
                      "FIELD_INVALID");
  }
  if (!tensor.has_bytes) return Expired();
  const int64_t rest = size - range.offset;
  const int64_t count = range.limit == 0 ? rest : std::min(range.limit, rest);
  return TensorReader(store, std::move(tensor),
                      static_cast<uint64_t>(range.offset),
                      static_cast<uint64_t>(range.offset + count));
}

absl::Status TensorReader::LoadPart(uint64_t part_index) {
  const auto read = store_->ReadPart(tensor_.parts[part_index], buffer_);
  if (!read.ok()) {
    return Reason(read.status()) == "TENSOR_EXPIRED" ? Expired()
                                                     : read.status();
  }
  const uint64_t expected =
      std::min(kPartBytes, tensor_.tensor_bytes - part_index * kPartBytes);
  if (read->size() != expected) {
    return WithReason(MakeStatus(Code::kDataLoss,
                                 "part {} of the tensor has {} bytes, not {}",
                                 part_index, read->size(), expected),
                      "FRAME_CORRUPT");
  }
  part_index_ = part_index;
  part_ = *read;
  return absl::OkStatus();
}

absl::StatusOr<bool> TensorReader::Next(Piece& out) {
  if (started_ && next_ == end_) return false;
  const bool first = !std::exchange(started_, true);
  if (next_ == end_) {
    out = {next_, {}};
    return true;
  }
  const uint64_t part_index = next_ / kPartBytes;
  if (first || part_index != part_index_) {
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
