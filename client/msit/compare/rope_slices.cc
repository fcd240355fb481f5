// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/rope_slices.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/msit/pair/pair_comparison.h"
#include "client/msit/pair/private_runs.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/resource_name.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// The inputs of the operation after query and key: cosine, sine, and the length
// of the sequence.
constexpr int kFirstTable = 2;
constexpr int kLength = 4;
constexpr int kInputs = 5;

struct KeyedFile {
  TensorKey key;
  FileIndex::File file;
};

std::optional<KeyedFile> FindTensor(const LevelSide& side,
                                    const std::string& op, int64_t token, Io io,
                                    int index) {
  KeyedFile out;
  out.key.op = op;
  out.key.token = token;
  out.key.io = io;
  out.key.index = std::to_string(index);
  out.file = side.FileOf(out.key, /*rank=*/0);
  if (out.file.path.empty()) return std::nullopt;
  return out;
}

std::optional<int64_t> ReadLength(const std::string& path) {
  const auto tensor = ReadTensor(path);
  if (!tensor.ok() || ElementCount(tensor->shape) != 1) return std::nullopt;
  const auto numbers = NumbersOf(*tensor);
  if (!numbers.ok() || numbers->size() != 1) return std::nullopt;
  const double length = numbers->front();
  const bool is_length = length >= 1 && length <= 1e15;
  return is_length ? std::optional(static_cast<int64_t>(length)) : std::nullopt;
}

// Returns a text that identifies a tensor of a side within one comparison of
// ropes.
std::string IdOf(const TensorKey& key) {
  return fmt::format("{} {} {} {}", key.token, IoName(key.io), key.index,
                     key.op);
}

// Returns the elements at index `at` of dimension `dim`, without that
// dimension.
Tensor TakeAt(const Tensor& tensor, size_t dim, int64_t at) {
  const std::vector<int64_t> strides = StridesOf(tensor.shape);
  std::vector<ViewedAxis> axes;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i != dim) axes.push_back({tensor.shape[i], strides[i]});
  }
  return Gather(tensor, at * strides[dim], axes);
}

}  // namespace

std::optional<Tensor> SliceOfTable(const Tensor& table, int64_t sequence_length,
                                   int part) {
  const std::vector<int64_t>& shape = table.shape;
  if (ElementCount(shape) == 0) return std::nullopt;
  if (shape.size() == 4) {
    for (const size_t dim : {size_t{2}, size_t{1}}) {
      if (sequence_length <= shape[dim]) {
        return TakeAt(table, dim, sequence_length - 1);
      }
    }
  }
  if (shape.size() == 3 && sequence_length <= shape[0] && part < shape[2]) {
    return TakeAt(TakeAt(table, 0, sequence_length - 1), 1, part);
  }
  return std::nullopt;
}

std::optional<Tensor> WithoutRepeatedColumns(const Tensor& tensor) {
  const bool is_row = tensor.shape.size() == 2 && tensor.shape[0] == 1;
  if (!is_row || tensor.shape[1] < 2 || tensor.shape[1] % 2 != 0) {
    return std::nullopt;
  }
  const int64_t half = tensor.shape[1] / 2;
  const auto every_second = [&](int64_t first) {
    return Gather(tensor, first, {{1, tensor.shape[1]}, {half, 2}});
  };
  Tensor even = every_second(0);
  if (even.bytes != every_second(1).bytes) return std::nullopt;
  return even;
}

void RopeSlices::FindPart(const match::RopeOps& ops, int64_t token, int part,
                          int64_t sequence_length) {
  const LevelSide& torch_side = is_torch_golden_ ? golden_ : my_;
  const LevelSide& atb_side = is_torch_golden_ ? my_ : golden_;
  const auto atb =
      FindTensor(atb_side, ops.atb, token, Io::kInput, kFirstTable + part);
  // One table may contain both.
  auto torch = FindTensor(torch_side, ops.torch, token, Io::kOutput, part);
  if (!torch.has_value()) {
    torch = FindTensor(torch_side, ops.torch, token, Io::kOutput, 0);
  }
  if (!atb.has_value() || !torch.has_value()) return;
  auto table = ReadTensor(torch->file.path);
  auto taken = ReadTensor(atb->file.path);
  if (!table.ok() || !taken.ok()) return;
  // A tensor of the same size is compared unchanged.
  const uint64_t count = ElementCount(taken->shape);
  if (ElementCount(table->shape) == count) return;
  std::optional<Tensor> slice = SliceOfTable(*table, sequence_length, part);
  if (!slice.has_value()) return;
  if (ElementCount(slice->shape) != count) {
    std::optional<Tensor> columns = WithoutRepeatedColumns(*taken);
    if (!columns.has_value() ||
        ElementCount(columns->shape) != ElementCount(slice->shape)) {
      return;
    }
    *taken = *std::move(columns);
  }
  Slice out;
  out.token = token;
  out.op = is_torch_golden_ ? ops.torch : ops.atb;
  const KeyedFile& golden = is_torch_golden_ ? *torch : *atb;
  const KeyedFile& my = is_torch_golden_ ? *atb : *torch;
  out.golden = FormatTensorName(kGoldenRun, golden.key);
  out.my = FormatTensorName(kMyRun, my.key);
  out.golden_tensor = is_torch_golden_ ? *std::move(slice) : *std::move(taken);
  out.my_tensor = is_torch_golden_ ? *std::move(taken) : *std::move(slice);
  golden_ids_.insert(IdOf(golden.key));
  my_ids_.insert(IdOf(my.key));
  slices_.push_back(std::move(out));
}

void RopeSlices::Find(const match::RopeOps& ops, int64_t token) {
  const LevelSide& atb_side = is_torch_golden_ ? my_ : golden_;
  const auto length = FindTensor(atb_side, ops.atb, token, Io::kInput, kLength);
  if (!length.has_value() ||
      FindTensor(atb_side, ops.atb, token, Io::kInput, kInputs).has_value()) {
    return;
  }
  const auto sequence_length = ReadLength(length->file.path);
  if (!sequence_length.has_value()) return;
  for (const int part : {0, 1}) FindPart(ops, token, part, *sequence_length);
}

bool RopeSlices::Has(const v1::ComparisonRow& row) const {
  const auto has = [](const std::set<std::string>& ids,
                      const v1::ComparedTensor& tensor) {
    const auto key = ParseTensorName(tensor.name());
    return key.has_value() && ids.contains(IdOf(*key));
  };
  return has(golden_ids_, row.golden()) || has(my_ids_, row.target());
}

absl::Status RopeSlices::Compare(
    ask::Interrupts& interrupts,
    const std::function<absl::Status(const v1::ComparisonRow& row)>& take) {
  PairComparison pairs(interrupts,
                       [&](size_t pair, const v1::Comparison& /*comparison*/,
                           const v1::ComparisonRow& row) {
                         const Slice& slice = slices_[pair];
                         v1::ComparisonRow named = row;
                         named.set_op(slice.op);
                         named.set_token(slice.token);
                         named.mutable_golden()->set_name(slice.golden);
                         named.mutable_target()->set_name(slice.my);
                         return take(named);
                       });
  for (const Slice& slice : slices_) {
    MSITD_RETURN_IF_ERROR(pairs.Add(slice.golden_tensor, slice.my_tensor));
  }
  return pairs.Finish();
}

}  // namespace msitd::msit_command
