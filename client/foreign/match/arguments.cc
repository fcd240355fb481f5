// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/arguments.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/foreign/match/limits.h"
#include "protos/base/shape.h"

namespace msitd::match {
namespace {

// The largest number of pairs among the elements from each two positions on.
class PairCounts {
 public:
  PairCounts(size_t rows, size_t columns)
      : columns_(columns + 1), counts_((rows + 1) * (columns + 1)) {}

  uint32_t& At(size_t row, size_t column) {
    return counts_[row * columns_ + column];
  }

 private:
  size_t columns_;
  std::vector<uint32_t> counts_;
};

std::optional<size_t> NumberOf(std::string_view index) {
  size_t number = 0;
  const char* const end = index.data() + index.size();
  const auto [stop, error] = std::from_chars(index.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool MayBeEqual(const TensorSizes& a, const TensorSizes& b) {
  return a.one == b.one || a.one == b.all || a.all == b.one || a.all == b.all;
}

}  // namespace

std::vector<size_t> ArgumentsOf(const OpFacts& op, Io io) {
  std::vector<size_t> out;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.tensors[i].io == io) out.push_back(i);
  }
  return out;
}

std::vector<size_t> ArgumentsByText(const OpFacts& op, Io io) {
  std::vector<size_t> out = ArgumentsOf(op, io);
  std::sort(out.begin(), out.end(), [&op](size_t a, size_t b) {
    return op.tensors[a].index < op.tensors[b].index;
  });
  return out;
}

Alignment Zip(size_t golden_count, size_t target_count) {
  Alignment out;
  for (size_t i = 0; i < std::min(golden_count, target_count); ++i) {
    out.emplace_back(i, i);
  }
  return out;
}

Alignment AlignSizes(const std::vector<TensorSizes>& golden,
                     const std::vector<TensorSizes>& target) {
  const size_t rows = golden.size();
  const size_t columns = target.size();
  if (rows != 0 && columns > kAlignCellsMax / rows) return {};
  PairCounts counts(rows, columns);
  for (size_t row = rows; row-- > 0;) {
    for (size_t column = columns; column-- > 0;) {
      const uint32_t without =
          std::max(counts.At(row + 1, column), counts.At(row, column + 1));
      const uint32_t with = MayBeEqual(golden[row], target[column])
                                ? counts.At(row + 1, column + 1) + 1
                                : 0;
      counts.At(row, column) = std::max(with, without);
    }
  }
  Alignment out;
  for (size_t row = 0, column = 0; row < rows && column < columns;) {
    const uint32_t best = counts.At(row, column);
    if (MayBeEqual(golden[row], target[column]) &&
        counts.At(row + 1, column + 1) + 1 == best) {
      out.emplace_back(row++, column++);
    } else if (counts.At(row + 1, column) == best) {
      ++row;
    } else {
      ++column;
    }
  }
  return out;
}

Alignment AlignBySize(const OpFacts& golden,
                      const std::vector<size_t>& golden_list,
                      const OpFacts& target,
                      const std::vector<size_t>& target_list) {
  const auto sizes_of = [](const OpFacts& op, const std::vector<size_t>& list) {
    std::vector<TensorSizes> out;
    for (const size_t i : list) {
      const uint64_t count = ElementCount(op.tensors[i].shape);
      out.push_back({count, count});
    }
    return out;
  };
  return AlignSizes(sizes_of(golden, golden_list),
                    sizes_of(target, target_list));
}

std::optional<Alignment> AlignByNumber(const OpFacts& golden,
                                       const std::vector<size_t>& golden_list,
                                       const OpFacts& target,
                                       const std::vector<size_t>& target_list) {
  // The last argument is known by its number, so the list is not empty.
  if (target_list.empty() || target_list.size() >= golden_list.size()) {
    return std::nullopt;
  }
  Alignment out;
  for (size_t j = 0; j < target_list.size(); ++j) {
    const auto number = NumberOf(target.tensors[target_list[j]].index);
    if (!number.has_value() || *number >= golden_list.size()) {
      return std::nullopt;
    }
    const auto count_of = [](const OpFacts& op, size_t i) {
      return ElementCount(op.tensors[i].shape);
    };
    if (count_of(golden, golden_list[*number]) !=
        count_of(target, target_list[j])) {
      return std::nullopt;
    }
    out.emplace_back(*number, j);
  }
  const bool has_last = out.back().first + 1 == golden_list.size();
  return has_last ? std::optional(std::move(out)) : std::nullopt;
}

Alignment Align(const OpFacts& golden, const std::vector<size_t>& golden_list,
                const OpFacts& target, const std::vector<size_t>& target_list) {
  if (golden_list.size() == target_list.size()) {
    return Zip(golden_list.size(), target_list.size());
  }
  auto by_number = AlignByNumber(golden, golden_list, target, target_list);
  if (by_number.has_value()) return *std::move(by_number);
  return AlignBySize(golden, golden_list, target, target_list);
}

}  // namespace msitd::match
