// SPDX-License-Identifier: Apache-2.0
#include "storage/batch/entry_codec.h"

#include <algorithm>
#include <string>

#include "protos/base/limits.h"
#include "protos/base/placement.h"
#include "protos/base/tensor_statistics.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

template <typename... Args>
absl::Status Impossible(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kDataLoss, format,
                    std::forward<Args>(args)...);
}

// Returns the size of a tensor with this shape in bytes; more than
// kTensorBytesMax if such a tensor is not allowed.
uint64_t BytesOf(const TensorInfo& tensor) {
  uint64_t bytes = ElementBytes(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    if (dim == 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes) ||
        bytes > kTensorBytesMax) {
      bytes = kTensorBytesMax + 1;
    }
  }
  return bytes;
}

absl::Status CheckShape(const TensorInfo& tensor) {
  if (tensor.shape.size() > kDimsMax ||
      std::any_of(tensor.shape.begin(), tensor.shape.end(),
                  [](int64_t dim) { return dim < 0; })) {
    return Impossible("its shape has {} dimensions or a negative one",
                      tensor.shape.size());
  }
  const uint64_t bytes =
      tensor.kind == RecordKind::kStatistics ? 0 : BytesOf(tensor);
  if (bytes == tensor.tensor_bytes && bytes <= kTensorBytesMax) {
    return absl::OkStatus();
  }
  return Impossible("its shape does not take {} bytes", tensor.tensor_bytes);
}

absl::Status CheckSummary(const TensorInfo& tensor) {
  const Summary& summary = tensor.summary;
  const uint64_t count_max = tensor.tensor_bytes * 2;
  if (summary.count <= count_max && summary.nan_count <= summary.count &&
      summary.positive_infinity_count <= summary.count &&
      summary.negative_infinity_count <= summary.count &&
      summary.zero_count <= summary.count &&
      summary.nan_count + summary.positive_infinity_count +
              summary.negative_infinity_count + summary.zero_count <=
          summary.count) {
    return absl::OkStatus();
  }
  return Impossible("its summary counts more than it has");
}

}  // namespace

uint64_t EntryBits(const TensorInfo& tensor) {
  uint64_t bits = 0;
  if (tensor.has_bytes) bits |= kEntryHasBytes;
  if (tensor.has_sample) bits |= kEntryHasSample;
  if (tensor.is_claimed) bits |= kEntryIsClaimed;
  if (!tensor.placement.empty()) bits |= kEntryPlacement;
  if (tensor.requires_grad.has_value()) {
    bits |= kEntryGradKnown | (*tensor.requires_grad ? kEntryGrad : 0);
  }
  if (HasValueText(tensor.kind)) bits |= kEntryValue;
  if (!tensor.stack.empty()) bits |= kEntryStack;
  if (tensor.alias_of.has_value()) bits |= kEntryAlias;
  const bool is_mixed = std::any_of(
      tensor.parts.begin(), tensor.parts.end(), [&](const PartInfo& part) {
        return part.has_bytes != tensor.has_bytes || part.has_sample;
      });
  return is_mixed ? bits | kEntryMixedParts : bits;
}

absl::Status CheckEntry(const TensorInfo& tensor) {
  const TensorKey& key = tensor.key;
  if (key.rank < 0 || key.rank > kRankMax || key.token < 0 ||
      key.token > kTokenMax || key.call < 0 || key.call > kCallMax ||
      !IsValid(key.io)) {
    return Impossible("rank {}, token {}, call {} and io {} are out of range",
                      key.rank, key.token, key.call, static_cast<int>(key.io));
  }
  if (!IsValid(tensor.dtype) || !IsValid(tensor.kind)) {
    return Impossible("dtype {} or kind {} is unknown",
                      static_cast<int>(tensor.dtype),
                      static_cast<int>(tensor.kind));
  }
  MSITD_RETURN_IF_ERROR(CheckShape(tensor));
  MSITD_RETURN_IF_ERROR(CheckSummary(tensor));
  if (!tensor.placement.empty() &&
      !ParsePlacement(tensor.placement).has_value()) {
    return Impossible("\"{}\" is no placement", tensor.placement);
  }
  if (tensor.kind == RecordKind::kStatistics &&
      !ParseTensorStatistics(tensor.value).has_value()) {
    return Impossible("its statistics are no JSON object of names and scalars");
  }
  if (!tensor.alias_of.has_value()) return absl::OkStatus();
  const AliasOf& original = *tensor.alias_of;
  if (original.call < 0 || original.call > kCallMax || !IsValid(original.io)) {
    return Impossible("the call {} or io {} of its original is out of range",
                      original.call, static_cast<int>(original.io));
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
