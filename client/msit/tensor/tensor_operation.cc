// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/tensor_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "client/ask/text/text.h"
#include "client/msit/command/logger.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

template <typename... Args>
absl::Status Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format,
                    std::forward<Args>(args)...);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t at = text.find(separator);
    std::string_view part = text.substr(0, at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    out.push_back(part);
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

// "1:-1:2".
std::optional<Range> ParseRange(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  std::optional<int64_t> numbers[3];
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    numbers[i] = ParseInteger(parts[i]);
    if (!numbers[i].has_value()) return std::nullopt;
  }
  return Range{numbers[0], numbers[1], numbers[2].value_or(1)};
}

std::optional<SlicePart> ParsePart(std::string_view text) {
  if (text == "...") return Ellipsis{};
  if (text.find(':') == std::string_view::npos) return ParseInteger(text);
  return ParseRange(text);
}

// Returns the end of a slice in a dimension as in Python.
int64_t Clamp(int64_t index, int64_t extent) {
  if (index < 0) index = index < -extent ? 0 : index + extent;
  return std::min(index, extent);
}

ViewedAxis Narrow(const Range& range, int64_t extent, int64_t stride,
                  int64_t& first) {
  const int64_t start = Clamp(range.start.value_or(0), extent);
  const int64_t end =
      std::max(start, Clamp(range.end.value_or(extent), extent));
  const int64_t length = end - start;
  if (length > 0) first += start * stride;
  const int64_t count = length / range.step + (length % range.step != 0);
  // A stride is not used unless there is a second element.
  return {count, count > 1 ? stride * range.step : 0};
}

}  // namespace

absl::StatusOr<Tensor> TensorOperation::Apply(const Tensor& tensor) const {
  return is_slice_ ? Slice(tensor) : Permute(tensor);
}

absl::StatusOr<Tensor> TensorOperation::Slice(const Tensor& tensor) const {
  const size_t rank = tensor.shape.size();
  const bool has_ellipsis =
      std::any_of(parts_.begin(), parts_.end(), [](const SlicePart& part) {
        return std::holds_alternative<Ellipsis>(part);
      });
  const size_t given = parts_.size() - (has_ellipsis ? 1 : 0);
  if (given > rank) {
    return Wrong("{} has more dimensions than the tensor, which has {}", text_,
                 rank);
  }
  const std::vector<int64_t> strides = StridesOf(tensor.shape);
  std::vector<ViewedAxis> axes;
  int64_t first = 0;
  size_t dim = 0;
  const auto keep = [&](size_t count) {
    for (; count > 0; --count, ++dim) {
      axes.push_back({tensor.shape[dim], strides[dim]});
    }
  };
  for (const SlicePart& part : parts_) {
    if (std::holds_alternative<Ellipsis>(part)) {
      keep(rank - given);
      continue;
    }
    const int64_t extent = tensor.shape[dim];
    if (const auto* range = std::get_if<Range>(&part)) {
      axes.push_back(Narrow(*range, extent, strides[dim], first));
    } else {
      const int64_t index = std::get<int64_t>(part);
      if (index >= extent || index < -extent) {
        return Wrong("Index out of range, dim[{}]_size is {} while index={}",
                     dim, extent, index);
      }
      first += (index < 0 ? index + extent : index) * strides[dim];
    }
    ++dim;
  }
  keep(rank - dim);
  return Gather(tensor, first, axes);
}

absl::StatusOr<Tensor> TensorOperation::Permute(const Tensor& tensor) const {
  const size_t rank = tensor.shape.size();
  if (order_.size() != rank) {
    return Wrong("{} has {} dimensions, the tensor has {}", text_,
                 order_.size(), rank);
  }
  const std::vector<int64_t> strides = StridesOf(tensor.shape);
  std::vector<bool> used(rank, false);
  std::vector<ViewedAxis> axes;
  for (const int64_t dim : order_) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank)) {
      return Wrong("{}: not all dimensions are between 0 and {}", text_,
                   static_cast<int64_t>(rank) - 1);
    }
    const auto d = static_cast<size_t>(dim);
    if (used[d]) return Wrong("{} contains duplicate dimensions!", text_);
    used[d] = true;
    axes.push_back({tensor.shape[d], strides[d]});
  }
  return Gather(tensor, 0, axes);
}

absl::StatusOr<std::vector<TensorOperation>> ParseOperations(
    std::string_view text) {
  std::vector<TensorOperation> out;
  for (const std::string_view part : Split(text, ';')) {
    TensorOperation operation;
    operation.text_ = part;
    operation.is_slice_ = part.starts_with('[') && part.ends_with(']');
    const bool is_permutation = part.starts_with('(') && part.ends_with(')');
    if (part.size() < 2 || (!operation.is_slice_ && !is_permutation)) {
      return Wrong("Invalid operation string: {}", ask::Printable(part));
    }
    std::vector<std::string> shown;
    int ellipsis_count = 0;
    for (const auto word : Split(part.substr(1, part.size() - 2), ',')) {
      if (word.empty()) continue;
      const std::optional<SlicePart> parsed = ParsePart(word);
      const auto* number =
          parsed.has_value() ? std::get_if<int64_t>(&*parsed) : nullptr;
      if (!parsed.has_value() || (is_permutation && number == nullptr)) {
        return Wrong("{} is invalid: '{}'", ask::Printable(part),
                     ask::Printable(word));
      }
      if (const auto* range = std::get_if<Range>(&*parsed)) {
        if (range->step <= 0) return Wrong("slice step must be positive");
      }
      ellipsis_count += std::holds_alternative<Ellipsis>(*parsed) ? 1 : 0;
      shown.push_back(operation.is_slice_ ? Quoted(word) : std::string(word));
      if (shown.size() > kOperationPartsMax || ellipsis_count > 1) {
        return Wrong("{} has too many parts", ask::Printable(part));
      }
      if (is_permutation) operation.order_.push_back(*number);
      operation.parts_.push_back(*parsed);
    }
    if (operation.is_slice_ && shown.empty()) {
      return Wrong("slice string can not be empty");
    }
    operation.name_ = fmt::format(
        "{}: [{}]", operation.is_slice_ ? "SliceOperation" : "PermuteOperation",
        fmt::join(shown, ", "));
    out.push_back(std::move(operation));
    if (out.size() > kOperationPartsMax) return Wrong("too many operations");
  }
  return out;
}

}  // namespace msitd::msit_command
