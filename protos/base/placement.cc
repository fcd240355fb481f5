// SPDX-License-Identifier: Apache-2.0
#include "protos/base/placement.h"

#include <algorithm>
#include <charconv>

#include "protos/base/limits.h"

namespace msitd {
namespace {

constexpr size_t kReductionBytesMax = 16;

// Takes plain decimals only, so that a placement has one text: no sign, no zero
// in front.
std::optional<int32_t> ParseNumber(std::string_view text, int32_t max) {
  if (text.empty() || text[0] < '0' || text[0] > '9' ||
      (text[0] == '0' && text.size() > 1)) {
    return std::nullopt;
  }
  int32_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || last != end || out > max) return std::nullopt;
  return out;
}

// Removes the text before the first `end`, and `end` itself, from the front of
// `text` and returns what was before; all of it if there is no `end`.
std::string_view TakeUpTo(char end, std::string_view& text) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view out = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return out;
}

size_t CountOf(char c, std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), c));
}

bool IsReduction(std::string_view text) {
  return !text.empty() && text.size() <= kReductionBytesMax &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// `R`, `S(0)`, `P(sum)`.
bool ParseKind(std::string_view text, Placement::MeshDim& out) {
  if (text == "R") {
    out.kind = Placement::Kind::kReplicated;
    return true;
  }
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') return false;
  const std::string_view argument = text.substr(2, text.size() - 3);
  if (text[0] == 'S') {
    const auto dim = ParseNumber(argument, static_cast<int32_t>(kDimsMax) - 1);
    out.kind = Placement::Kind::kSharded;
    out.tensor_dim = dim.value_or(0);
    return dim.has_value();
  }
  out.kind = Placement::Kind::kPartial;
  out.reduction = argument;
  return text[0] == 'P' && IsReduction(argument);
}

// True if no rank is above kRankMax and none can occur twice: each stride is
// above the reach of all smaller ones.
bool HasDistinctRanks(const Placement& placement) {
  std::vector<const Placement::MeshDim*> by_stride;
  for (const Placement::MeshDim& dim : placement.dims) {
    if (dim.size > 1) by_stride.push_back(&dim);
  }
  std::sort(by_stride.begin(), by_stride.end(),
            [](const auto* a, const auto* b) { return a->stride < b->stride; });
  // No overflow: both factors are at most kRankMax, and so is the reach so far.
  int64_t reach = 0;
  for (const Placement::MeshDim* const dim : by_stride) {
    if (dim->stride <= reach) return false;
    reach += int64_t{dim->size - 1} * dim->stride;
    if (placement.first + reach > kRankMax) return false;
  }
  return true;
}

}  // namespace

std::optional<Placement> ParsePlacement(std::string_view text) {
  if (text.size() > kPlacementBytesMax) return std::nullopt;
  if (CountOf('+', text) != 1 || CountOf('/', text) != 1 ||
      CountOf(':', text) != 1) {
    return std::nullopt;
  }
  Placement out;
  const auto first = ParseNumber(TakeUpTo('+', text), kRankMax);
  std::string_view sizes = TakeUpTo('/', text);
  std::string_view strides = TakeUpTo(':', text);
  const size_t dim_count = CountOf('x', sizes) + 1;
  if (!first || dim_count > kMeshDimsMax ||
      CountOf('x', strides) + 1 != dim_count ||
      CountOf(',', text) + 1 != dim_count) {
    return std::nullopt;
  }
  out.first = *first;
  out.dims.resize(dim_count);
  for (Placement::MeshDim& dim : out.dims) {
    const auto size = ParseNumber(TakeUpTo('x', sizes), kRankMax + 1);
    const auto stride = ParseNumber(TakeUpTo('x', strides), kRankMax);
    if (!size || !stride || *size == 0 || *stride == 0 ||
        !ParseKind(TakeUpTo(',', text), dim)) {
      return std::nullopt;
    }
    dim.size = *size;
    dim.stride = *stride;
  }
  if (!HasDistinctRanks(out)) return std::nullopt;
  return out;
}

}  // namespace msitd
