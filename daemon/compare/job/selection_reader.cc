// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/selection_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/measure/element_reader.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Rows = std::set<uint64_t>;

absl::StatusOr<std::string> BytesOf(const LogicalTensor& tensor,
                                    std::string_view side,
                                    storage::RunReader& run,
                                    WorkObserver& observer) {
  if (tensor.tensor_bytes > kSelectedBytesMax) {
    return absl::FailedPreconditionError("a tensor is too large");
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> reader,
                         ElementReader::Open(tensor, side, run, observer));
  std::string out;
  MSITD_RETURN_IF_ERROR(reader->Next(ElementCount(tensor.shape), &out));
  return out;
}

// Returns the rows of `from` that `selected` consists of; nullopt if it has any
// other row.
absl::StatusOr<std::optional<Rows>> SelectedRows(const LogicalTensor& selected,
                                                 const LogicalTensor& from,
                                                 std::string_view side,
                                                 storage::RunReader& run,
                                                 WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::string all,
                         BytesOf(from, side, run, observer));
  MSITD_ASSIGN_OR_RETURN(const std::string some,
                         BytesOf(selected, side, run, observer));
  const size_t row =
      static_cast<size_t>(from.shape.back()) * ElementBytes(from.dtype);
  std::map<std::string_view, uint64_t> numbers;
  for (size_t i = 0; i + row <= all.size(); i += row) {
    numbers.emplace(std::string_view(all).substr(i, row), i / row);
  }
  Rows out;
  for (size_t i = 0; i + row <= some.size(); i += row) {
    const auto found = numbers.find(std::string_view(some).substr(i, row));
    if (found == numbers.end()) return std::optional<Rows>();
    out.insert(found->second);
  }
  return std::optional<Rows>(std::move(out));
}

// True if two golden scores are so close that the differences between the runs
// can change their order. One of them must be that of `column`, if it is known.
bool HasNearScores(std::vector<double> golden,
                   const std::vector<double>& target,
                   std::optional<uint64_t> column) {
  double difference = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    if (golden[i] == target[i]) continue;
    difference = std::max(difference, std::fabs(golden[i] - target[i]));
  }
  if (difference == 0 || !std::isfinite(difference)) return false;
  if (column.has_value()) {
    if (*column >= golden.size()) return false;
    const double own = golden[*column];
    return std::count_if(golden.begin(), golden.end(), [&](double score) {
             return std::fabs(score - own) <= 2 * difference;
           }) > 1;
  }
  std::sort(golden.begin(), golden.end());
  for (size_t i = 1; i < golden.size(); ++i) {
    if (golden[i] - golden[i - 1] <= 2 * difference) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<SelectionOutcome> ReadSelection(const TensorPair& selected,
                                               const TensorPair& from,
                                               const TensorPair& scores,
                                               std::optional<uint64_t> column,
                                               const PairRuns& runs,
                                               WorkObserver& observer) {
  SelectionOutcome out;
  MSITD_ASSIGN_OR_RETURN(const std::optional<Rows> golden,
                         SelectedRows(*selected.golden, *from.golden, "golden",
                                      runs.golden, observer));
  if (!golden.has_value()) return out;
  std::optional<Rows> target = Rows();
  if (selected.target != nullptr) {
    MSITD_ASSIGN_OR_RETURN(
        target, SelectedRows(*selected.target, *from.target, "target",
                             runs.target, observer));
  }
  if (!target.has_value()) return out;
  out.is_selection = true;
  Rows others;
  std::set_symmetric_difference(golden->begin(), golden->end(), target->begin(),
                                target->end(),
                                std::inserter(others, others.end()));
  out.other_count = others.size();
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> golden_scores,
      ElementReader::Open(*scores.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> target_scores,
      ElementReader::Open(*scores.target, "target", runs.target, observer));
  const auto width = static_cast<uint64_t>(scores.golden->shape.back());
  uint64_t next = 0;
  for (const uint64_t row : others) {
    std::vector<double>* const nothing = nullptr;
    const uint64_t between = (row - next) * width;
    MSITD_RETURN_IF_ERROR(golden_scores->Next(between, nothing));
    MSITD_RETURN_IF_ERROR(target_scores->Next(between, nothing));
    std::vector<double> of_golden;
    std::vector<double> of_target;
    MSITD_RETURN_IF_ERROR(golden_scores->Next(width, &of_golden));
    MSITD_RETURN_IF_ERROR(target_scores->Next(width, &of_target));
    next = row + 1;
    if (!HasNearScores(of_golden, of_target, column)) {
      ++out.unexplained_count;
    }
  }
  return out;
}

}  // namespace msitd::compare
