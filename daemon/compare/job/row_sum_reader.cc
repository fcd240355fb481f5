// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/row_sum_reader.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/row_sums.h"
#include "daemon/compare/measure/element_reader.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

uint64_t WidthOf(const LogicalTensor& tensor) {
  return static_cast<uint64_t>(tensor.shape.back());
}

// Returns the sum of each row of `input`, as rounded to the type of `output`.
absl::StatusOr<RowSums> SumsOf(const LogicalTensor& input,
                               const LogicalTensor& output,
                               std::string_view side, storage::RunReader& run,
                               WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> reader,
                         ElementReader::Open(input, side, run, observer));
  const int digits = RoundedDigits(output.dtype);
  const bool is_narrowed = digits < RoundedDigits(input.dtype);
  RowSums out;
  std::vector<double> row;
  const uint64_t rows = ElementCount(input.shape) / WidthOf(input);
  for (uint64_t i = 0; i < rows; ++i) {
    row.clear();
    MSITD_RETURN_IF_ERROR(reader->Next(WidthOf(input), &row));
    if (is_narrowed) {
      for (double& x : row) x = RoundedTo(x, digits);
    }
    out.Add(row);
  }
  return out;
}

using RowCallback =
    absl::FunctionRef<void(uint64_t row, const std::vector<double>& golden,
                           const std::vector<double>& target)>;

absl::Status ForEachRow(const TensorPair& pair, const PairRuns& runs,
                        WorkObserver& observer, RowCallback callback) {
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> golden,
      ElementReader::Open(*pair.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> target,
      ElementReader::Open(*pair.target, "target", runs.target, observer));
  const uint64_t width = WidthOf(*pair.golden);
  const uint64_t rows = ElementCount(pair.golden->shape) / width;
  std::vector<double> of_golden;
  std::vector<double> of_target;
  for (uint64_t i = 0; i < rows; ++i) {
    of_golden.clear();
    of_target.clear();
    MSITD_RETURN_IF_ERROR(golden->Next(width, &of_golden));
    MSITD_RETURN_IF_ERROR(target->Next(width, &of_target));
    callback(i, of_golden, of_target);
  }
  return absl::OkStatus();
}

// Returns `metrics` with `share` of the remaining errors.
RowMetrics Replaced(const RowMetrics& metrics, const RowSumRemainder& rest,
                    double share) {
  using compute::Metric;
  RowMetrics out = metrics;
  const auto replace = [&out, share](size_t metric, double value) {
    if (out[metric].has_value()) out[metric] = share * value;
  };
  replace(static_cast<size_t>(Metric::kNl2), rest.Nl2());
  replace(kScaledMaxAbs, rest.ScaledMaxAbs());
  replace(static_cast<size_t>(Metric::kRowNl2P50), rest.RowNl2P50());
  replace(static_cast<size_t>(Metric::kChannelNl2P50), rest.ChannelNl2P50());
  return out;
}

}  // namespace

bool HasRowsOf(const TensorPair& input, const TensorPair& output) {
  const auto& shape = output.golden->shape;
  const auto& of_input = input.golden->shape;
  return input.target->shape == of_input && output.target->shape == shape &&
         shape.size() > 1 && of_input.size() == shape.size() &&
         ElementCount(shape) > 0 && ElementCount(of_input) > 0 &&
         std::equal(shape.begin(), shape.end() - 1, of_input.begin());
}

absl::StatusOr<ErrorBesideSums> ReadWithoutRowSums(
    const TensorPair& input, const TensorPair& output,
    const RowMetrics& metrics, double rounding, const PairRuns& runs,
    RowSumBudget& budget, RowSlopes& slopes, WorkObserver& observer) {
  // The output is read twice.
  const uint64_t bytes =
      input.golden->tensor_bytes + input.target->tensor_bytes +
      2 * (output.golden->tensor_bytes + output.target->tensor_bytes);
  const uint64_t width = WidthOf(*output.golden);
  if (width > kSlopesMax || bytes > budget.bytes) {
    return absl::ResourceExhaustedError("too much to read");
  }
  budget.bytes -= bytes;
  MSITD_ASSIGN_OR_RETURN(
      const RowSums golden,
      SumsOf(*input.golden, *output.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const RowSums target,
      SumsOf(*input.target, *output.target, "target", runs.target, observer));
  const double nl2 =
      metrics[static_cast<size_t>(compute::Metric::kNl2)].value_or(0);
  if (!MayBeRoundedSums(golden, target, rounding, nl2)) {
    return absl::FailedPreconditionError("the sums are not those of roundings");
  }
  std::vector<double> errors = target.sums;
  for (size_t i = 0; i < errors.size(); ++i) errors[i] -= golden.sums[i];
  RowSumFit fit(errors, width);
  std::vector<std::vector<double>> predicting;  // By fold.
  if (fit.IsDetermined()) {
    MSITD_RETURN_IF_ERROR(ForEachRow(
        output, runs, observer,
        [&](uint64_t /*row*/, const auto& of_golden, const auto& of_target) {
          fit.Add(of_golden, of_target);
        }));
    predicting = fit.SlopesOfOthers();
  } else if (slopes.of_channels.size() != width) {
    return absl::FailedPreconditionError("too few rows");
  }
  RowSumRemainder rest(width);
  MSITD_RETURN_IF_ERROR(ForEachRow(
      output, runs, observer,
      [&](uint64_t row, const auto& of_golden, const auto& of_target) {
        rest.Add(predicting.empty() ? slopes.of_channels
                                    : predicting[fit.FoldOf(row)],
                 errors[row], of_golden, of_target);
      }));
  // False for NaN.
  const double share =
      predicting.empty() ? kRemainingShareLaterMax : kRemainingShareMax;
  if (!(rest.Nl2() <= share * nl2)) {
    return absl::FailedPreconditionError("the error does not follow the sums");
  }
  if (predicting.empty()) {
    return ErrorBesideSums{Replaced(metrics, rest, rest.ShareBeyond(slopes)),
                           rest.Shape()};
  }
  slopes = fit.Slopes(rest.Squares());
  return ErrorBesideSums{Replaced(metrics, rest, 1), rest.Shape()};
}

}  // namespace msitd::compare
