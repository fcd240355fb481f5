// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/facts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>

#include "client/foreign/match/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

// Removes and returns the first component of an index, up to a dot.
std::string_view TakeComponent(std::string_view& index) {
  const size_t dot = index.find('.');
  const std::string_view out = index.substr(0, dot);
  index = dot == std::string_view::npos ? std::string_view()
                                        : index.substr(dot + 1);
  return out;
}

std::optional<uint64_t> ToNumber(std::string_view text) {
  uint64_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return out;
}

// Returns a number less than, equal to or greater than 0, in the order of
// components.
int Compare(std::string_view a, std::string_view b) {
  const auto left = ToNumber(a);
  const auto right = ToNumber(b);
  if (left.has_value() != right.has_value()) return left.has_value() ? -1 : 1;
  if (left.has_value() && *left != *right) return *left < *right ? -1 : 1;
  return a.compare(b);
}

// Returns the position of an argument, or where it would be inserted.
std::vector<TensorFacts>::const_iterator LowerBound(
    const std::vector<TensorFacts>& tensors, Io io, std::string_view index) {
  return std::lower_bound(
      tensors.begin(), tensors.end(), index,
      [io](const TensorFacts& tensor, std::string_view other) {
        return tensor.io != io ? tensor.io < io
                               : ComesBefore(tensor.index, other);
      });
}

}  // namespace

bool ComesBefore(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const int order = Compare(TakeComponent(rest_a), TakeComponent(rest_b));
    if (order != 0) return order < 0;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;
}

bool HaveSameOps(const RunFacts& golden, const RunFacts& target) {
  std::unordered_set<std::string_view> names;
  for (const OpFacts& op : golden.ops) names.insert(op.op);
  return golden.ops.size() == target.ops.size() &&
         std::all_of(
             target.ops.begin(), target.ops.end(),
             [&names](const OpFacts& op) { return names.contains(op.op); });
}

std::optional<size_t> FindTensor(const OpFacts& op, Io io,
                                 std::string_view index) {
  const auto at = LowerBound(op.tensors, io, index);
  if (at == op.tensors.end() || at->io != io || at->index != index) {
    return std::nullopt;
  }
  return static_cast<size_t>(at - op.tensors.begin());
}

absl::Status FactsBuilder::Add(std::string_view op, int32_t call, Io io,
                               std::string_view index,
                               std::vector<int64_t> shape, int64_t size_bytes) {
  const auto [found, is_new] = by_name_.emplace(op, ops_.size());
  if (is_new) {
    if (ops_.size() == kOpsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "more than {} ops", kOpsMax);
    }
    ops_.push_back({.op = std::string(op), .tensors = {}});
    current_.push_back({.number = call});
    largest_bytes_.push_back(0);
  }
  const size_t number = found->second;
  Count(number, call, size_bytes);
  std::vector<TensorFacts>& tensors = ops_[number].tensors;
  const auto at = LowerBound(tensors, io, index);
  if (at != tensors.end() && at->io == io && at->index == index) {
    TensorFacts& known = tensors[static_cast<size_t>(at - tensors.begin())];
    SeeAgain(known, std::move(shape));
    ++known.record_count;
    return absl::OkStatus();
  }
  if (tensor_count_++ == kTensorsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "more than {} different tensors", kTensorsMax);
  }
  const uint64_t count = ElementCount(shape);
  tensors.insert(at, {.io = io,
                      .index = std::string(index),
                      .shape = shape,
                      .last_shape = shape,
                      .all_count = count,
                      .last_all_count = count,
                      .rank = rank_});
  return absl::OkStatus();
}

void FactsBuilder::SeeAgain(TensorFacts& tensor,
                            std::vector<int64_t> shape) const {
  const uint64_t count = ElementCount(shape);
  tensor.last_all_count += count;
  if (tensor.rank == rank_) {
    tensor.last_all_count -= ElementCount(tensor.last_shape);
  } else {
    tensor.all_count += count;
    tensor.rank = rank_;
  }
  tensor.last_shape = std::move(shape);
}

void FactsBuilder::Count(size_t op, int32_t call, int64_t size_bytes) {
  Call& current = current_[op];
  if (current.number != call) current = {.number = call};
  current.size_bytes += size_bytes;
  ops_[op].call_count = std::max(ops_[op].call_count, call + 1);
  if (current.size_bytes > largest_bytes_[op]) {
    largest_bytes_[op] = current.size_bytes;
    ops_[op].largest_call = call;
  }
}

std::vector<OpFacts> FactsBuilder::Finish() { return std::move(ops_); }

}  // namespace msitd::match
