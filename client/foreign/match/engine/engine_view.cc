// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

namespace msitd::match {
namespace {

// A view has a limited length.
constexpr size_t kSplitPartsMax = 64;

}  // namespace

size_t EngineView::DimOf(int dim) const {
  const auto count = static_cast<int64_t>(shape_.size());
  const int64_t at = dim < 0 ? dim + count : dim;
  return static_cast<size_t>(at < 0 || at >= count ? count : at);
}

void EngineView::Append(const std::string& step) {
  if (!text_.empty()) text_ += '.';
  text_ += step;
}

bool EngineView::Split(int dim, std::vector<int64_t> sizes, size_t part,
                       int64_t groups) {
  const size_t at = DimOf(dim);
  if (at == shape_.size() || part >= sizes.size() || groups < 1 ||
      sizes.size() > kSplitPartsMax) {
    return false;
  }
  int64_t total = 0;
  int64_t divisor = 0;
  for (const int64_t size : sizes) {
    if (size < 1 || __builtin_add_overflow(total, size, &total)) return false;
    divisor = std::gcd(divisor, size);
  }
  if (shape_[at] % groups != 0 || shape_[at] / groups % total != 0) {
    return false;
  }
  const int64_t length = shape_[at] / total * sizes[part];
  for (int64_t& size : sizes) size /= divisor;
  Append(groups == 1
             ? fmt::format("split({},{},{})", dim, fmt::join(sizes, ":"), part)
             : fmt::format("split({},{},{},{})", dim, fmt::join(sizes, ":"),
                           part, groups));
  shape_[at] = length;
  return true;
}

bool EngineView::Slice(int dim, int64_t begin, int64_t end) {
  const size_t at = DimOf(dim);
  if (at == shape_.size() || begin < 0 || end <= begin || end > shape_[at]) {
    return false;
  }
  Append(fmt::format("slice({},{}:{})", dim, begin, end));
  shape_[at] = end - begin;
  return true;
}

bool EngineView::Last(int dim) {
  const size_t at = DimOf(dim);
  if (at == shape_.size() || shape_[at] < 1) return false;
  Append(fmt::format("slice({},-1:)", dim));
  shape_[at] = 1;
  return true;
}

bool EngineView::Transpose(int a, int b) {
  const size_t first = DimOf(a);
  const size_t second = DimOf(b);
  if (first == shape_.size() || second == shape_.size()) return false;
  Append(fmt::format("transpose({},{})", a, b));
  std::swap(shape_[first], shape_[second]);
  return true;
}

bool EngineView::Flatten(int a, int b) {
  const size_t first = DimOf(a);
  const size_t second = DimOf(b);
  if (second == shape_.size() || second != first + 1) return false;
  Append(fmt::format("flatten({},{})", a, b));
  shape_[first] *= shape_[second];
  shape_.erase(shape_.begin() + static_cast<std::ptrdiff_t>(second));
  return true;
}

void EngineView::Sum(std::string_view leaf) {
  Append(fmt::format("sum({})", leaf));
}

}  // namespace msitd::match
