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

using Rows = std::vector<uint64_t>;  // In the order of the selection.

absl::StatusOr<std::string> BytesOf(const LogicalTensor& tensor,
                                    std::string_view side,
                                    storage::RunReader& run,
                                    WorkObserver& observer) {
  if (tensor.tensor_bytes > kSelectedBytesMax) {
    return absl::FailedPreconditionError("a tensor is too large");
  }
  return ReadElements<std::string>(tensor, side, run, observer);
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
    out.push_back(found->second);
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

// Returns the rows whose scores satisfy HasNearScores.
absl::StatusOr<std::set<uint64_t>> NearRows(const std::set<uint64_t>& rows,
                                            const TensorPair& scores,
                                            std::optional<uint64_t> column,
                                            const PairRuns& runs,
                                            WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> golden,
      ElementReader::Open(*scores.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> target,
      ElementReader::Open(*scores.target, "target", runs.target, observer));
  const auto width = static_cast<uint64_t>(scores.golden->shape.back());
  std::set<uint64_t> out;
  uint64_t next = 0;
  for (const uint64_t row : rows) {
    std::vector<double>* const nothing = nullptr;
    const uint64_t between = (row - next) * width;
    MSITD_RETURN_IF_ERROR(golden->Next(between, nothing));
    MSITD_RETURN_IF_ERROR(target->Next(between, nothing));
    std::vector<double> of_golden;
    std::vector<double> of_target;
    MSITD_RETURN_IF_ERROR(golden->Next(width, &of_golden));
    MSITD_RETURN_IF_ERROR(target->Next(width, &of_target));
    next = row + 1;
    if (HasNearScores(of_golden, of_target, column)) out.insert(row);
  }
  return out;
}

// Returns the rows that are, or are not, members of `set`, in their order.
Rows Filtered(const Rows& rows, const std::set<uint64_t>& set, bool in_set) {
  Rows out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
               [&](uint64_t row) { return set.contains(row) == in_set; });
  return out;
}

// Returns the number of places at which two lists differ.
uint64_t DifferingPlaces(const Rows& a, const Rows& b) {
  uint64_t out = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    out += a[i] != b[i] ? 1 : 0;
  }
  return out;
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
  const std::set<uint64_t> of_golden(golden->begin(), golden->end());
  const std::set<uint64_t> of_target(target->begin(), target->end());
  std::set<uint64_t> others;
  std::set_symmetric_difference(of_golden.begin(), of_golden.end(),
                                of_target.begin(), of_target.end(),
                                std::inserter(others, others.end()));
  const Rows common_in_golden = Filtered(*golden, others, false);
  const Rows common_in_target = Filtered(*target, others, false);
  out.other_count = others.size();
  out.moved_count = DifferingPlaces(common_in_golden, common_in_target);
  std::set<uint64_t> judged = others;
  if (out.moved_count > 0) {
    judged.insert(common_in_golden.begin(), common_in_golden.end());
  }
  MSITD_ASSIGN_OR_RETURN(const std::set<uint64_t> near,
                         NearRows(judged, scores, column, runs, observer));
  out.unexplained_count =
      static_cast<uint64_t>(
          std::count_if(others.begin(), others.end(),
                        [&](uint64_t row) { return !near.contains(row); })) +
      DifferingPlaces(Filtered(common_in_golden, near, false),
                      Filtered(common_in_target, near, false));
  return out;
}

}  // namespace msitd::compare
