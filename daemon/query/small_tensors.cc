// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/small_tensors.h"

#include "protos/status/status.h"

namespace msitd::query {
namespace {

// Returns whether the error concerns only one tensor.
bool IsOfTensor(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

absl::Status SmallTensors::Load(storage::StopCheck stop) {
  batch_.reset();
  items_.clear();
  parts_.clear();
  next_item_ = parts_begin_ = 0;
  uint64_t bytes = 0;
  while (next_key_ < keys_.size() && bytes < kBatchBytes) {
    MSITD_RETURN_IF_ERROR(stop());
    Item item{next_key_, 0, std::nullopt};
    const auto tensor = run_->GetTensor(keys_[next_key_++]);
    if (!tensor.ok()) {
      if (IsOfTensor(tensor.status())) continue;
      return tensor.status();
    }
    if (!tensor->has_bytes || tensor->tensor_bytes > kTensorBytesMax) continue;
    item.tensor_bytes = tensor->tensor_bytes;
    bytes += tensor->tensor_bytes;
    if (tensor->tensor_bytes > 0) {
      item.part = parts_.size();
      parts_.push_back(tensor->parts[0]);
    }
    items_.push_back(item);
  }
  if (!parts_.empty()) batch_ = run_->ReadParts(parts_, buffer_);
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> SmallTensors::Read(
    const Item& item) {
  if (!item.part.has_value()) return std::span<const std::byte>();
  if (*item.part - parts_begin_ == batch_->size()) {
    batch_.reset();
    parts_begin_ = *item.part;
    batch_ = run_->ReadParts(std::span(parts_).subspan(parts_begin_), buffer_);
  }
  MSITD_ASSIGN_OR_RETURN(const auto data,
                         batch_->Read(*item.part - parts_begin_));
  if (data.size() != item.tensor_bytes) {
    return absl::DataLossError("the part of a tensor has another size");
  }
  return data;
}

absl::StatusOr<bool> SmallTensors::Next(storage::StopCheck stop, Tensor& out) {
  while (true) {
    if (next_item_ == items_.size()) {
      if (next_key_ == keys_.size()) return false;
      MSITD_RETURN_IF_ERROR(Load(stop));
      continue;
    }
    const Item& item = items_[next_item_++];
    const auto data = Read(item);
    if (data.ok()) {
      out = {item.position, *data};
      return true;
    }
    if (!IsOfTensor(data.status())) return data.status();
  }
}

}  // namespace msitd::query
