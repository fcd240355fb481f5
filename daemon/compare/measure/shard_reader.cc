// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/shard_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::compare {

bool HasAllParts(const storage::TensorInfo& tensor) {
  const uint32_t element_bytes = ElementBytes(tensor.dtype);
  bool whole = tensor.parts.size() == chunk::PartCount(tensor.tensor_bytes);
  uint64_t rest = tensor.tensor_bytes;
  for (const storage::PartInfo& part : tensor.parts) {
    whole = whole && part.bytes == std::min(rest, kPartBytes);
    rest -= std::min(rest, part.bytes);
  }
  uint64_t elements = 1;
  for (const int64_t dim : tensor.shape) {
    whole = whole && dim >= 0 &&
            !__builtin_mul_overflow(elements, static_cast<uint64_t>(dim),
                                    &elements);
  }
  return whole && rest == 0 && element_bytes != 0 &&
         tensor.tensor_bytes % element_bytes == 0 &&
         tensor.tensor_bytes / element_bytes == elements;
}

absl::Status PartsDoNotFit(const storage::TensorInfo& tensor,
                           std::string_view label) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "{}: its {} parts do not make up its {} bytes", label,
                    tensor.parts.size(), tensor.tensor_bytes);
}

absl::Status ShardReader::CheckParts() const {
  if (HasAllParts(tensor_)) return absl::OkStatus();
  return PartsDoNotFit(tensor_, label_);
}

absl::StatusOr<std::span<const std::byte>> ShardReader::ReadPart(size_t index) {
  MSITD_CHECK(index < tensor_.parts.size());
  const storage::PartInfo& part = tensor_.parts[index];
  const auto bytes = ahead_part_.batch != nullptr
                         ? ahead_part_.batch->Read(ahead_part_.first + index)
                         : run_.ReadPart(part, part_);
  if (!bytes.ok()) {
    return Annotate(bytes.status(), label_);
  }
  if (bytes->size() != part.bytes) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}: part of {} bytes where {} were stored", label_,
                      bytes->size(), part.bytes);
  }
  observer_.OnRead(bytes->size());
  return *bytes;
}

absl::StatusOr<std::span<const std::byte>> ShardReader::ReadSample(
    size_t index) {
  MSITD_CHECK(index < tensor_.parts.size());
  MSITD_RETURN_IF_ERROR(observer_.Check());
  const auto sample = ahead_part_.batch != nullptr
                          ? ahead_part_.batch->Read(ahead_part_.first + index)
                          : run_.ReadSample(tensor_, index, part_);
  if (!sample.ok()) return Annotate(sample.status(), label_);
  const storage::PartInfo& part = tensor_.parts[index];
  // RunReader::ReadSample reads the whole part if its bytes are stored. A batch
  // of samples is read by another daemon, which sends only the samples.
  const bool reads_all =
      part.has_bytes && !sample->empty() && ahead_part_.batch == nullptr;
  observer_.OnRead(reads_all ? part.bytes : sample->size());
  return *sample;
}

absl::Status ShardReader::Read(std::span<std::byte> out) {
  while (!out.empty()) {
    if (ahead_.empty()) {
      MSITD_RETURN_IF_ERROR(observer_.Check());
      MSITD_ASSIGN_OR_RETURN(const std::span<const std::byte> part,
                             ReadPart(position_ / kPartBytes));
      const auto rest = part.subspan(position_ % kPartBytes);
      // Bytes that fit into `out` are copied directly.
      const size_t now = std::min(rest.size(), out.size());
      std::memcpy(out.data(), rest.data(), now);
      out = out.subspan(now);
      const size_t later = std::min(rest.size() - now, window_.size());
      if (later > 0) {
        std::memcpy(window_.data(), rest.data() + now, later);
      }
      ahead_ = window_.first(later);
      position_ += now + later;
      continue;
    }
    const size_t now = std::min(ahead_.size(), out.size());
    std::memcpy(out.data(), ahead_.data(), now);
    out = out.subspan(now);
    ahead_ = ahead_.subspan(now);
  }
  return absl::OkStatus();
}

}  // namespace msitd::compare
