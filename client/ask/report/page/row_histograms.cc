// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/row_histograms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "client/ask/text/text.h"
#include "protos/base/dtype.h"

namespace msitd::ask {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t SizeOf(const v1::ComparedTensor& tensor) {
  int64_t size = ElementBytes(static_cast<DType>(tensor.dtype()));
  for (const int64_t dimension : tensor.shape()) {
    // A shape that no tensor can have is larger than every bound.
    if (dimension < 0 || __builtin_mul_overflow(size, dimension, &size)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return size;
}

bool IsCode(const Outcome& outcome, grpc::StatusCode code) {
  return outcome.exit_code == ExitCodeOf(code);
}

std::string Problem(const std::string& side, const std::string& problem) {
  return problem.empty() ? "" : fmt::format("{}: {}", side, problem);
}

}  // namespace

RowHistograms::Side RowHistograms::SideOf(bool has,
                                          const v1::ComparedTensor& tensor) {
  Side side;
  if (!has) return side;
  side.name = tensor.name();
  side.size_bytes = SizeOf(tensor);
  if (!tensor.has_nan_count()) return side;
  if (!tensor.has_min() || !tensor.has_max()) {
    side.knows_range = true;
    side.low = kInfinity;
    side.high = -kInfinity;
  } else if (std::isfinite(tensor.min()) && std::isfinite(tensor.max())) {
    side.knows_range = true;
    side.low = tensor.min();
    side.high = tensor.max();
  }
  return side;
}

void RowHistograms::Consider(const v1::ComparisonRow& row) {
  std::vector<Candidate>& candidates =
      row.verdict() == v1::FAIL ? failing_ : others_;
  if (candidates.size() == row_max_) return;
  Candidate& candidate = candidates.emplace_back();
  candidate.row = row.row();
  candidate.golden = SideOf(row.has_golden(), row.golden());
  candidate.target = SideOf(row.has_target(), row.target());
  candidate.is_equal = row.bitwise_equal();
  const auto note = [&candidate](const char* side,
                                 const v1::ComparedTensor& tensor) {
    if (tensor.ranks().empty() && tensor.view().empty()) return;
    candidate.assembled +=
        fmt::format("{}{}: ", candidate.assembled.empty() ? "" : "; ", side);
    candidate.assembled +=
        tensor.ranks().empty()
            ? fmt::format("seen through the view {}", tensor.view())
            : fmt::format("assembled from shards of {} rank{}",
                          tensor.ranks_size(),
                          tensor.ranks_size() == 1 ? "" : "s");
  };
  note("golden", row.golden());
  note("target", row.target());
}

std::vector<RowHistograms::Candidate> RowHistograms::Chosen() const {
  std::vector<Candidate> chosen = failing_;
  const size_t rest = std::min(row_max_ - failing_.size(), others_.size());
  chosen.insert(chosen.end(), others_.begin(),
                others_.begin() + static_cast<ptrdiff_t>(rest));
  return chosen;
}

Outcome RowHistograms::Fetch(Connection& connection,
                             absl::FunctionRef<void(std::string_view)> show) {
  std::vector<Candidate> chosen = Chosen();
  std::vector<RowHistogram> rows;
  for (Candidate& candidate : chosen) {
    RowHistogram& row = rows.emplace_back();
    row.row = candidate.row;
    if (!candidate.assembled.empty()) {
      row.note = candidate.assembled;
      continue;
    }
    MSITCTL_RETURN_IF_FAILED(FetchRow(connection, candidate, row));
    show(fmt::format("histograms: {} of {} rows, {} read", rows.size(),
                     chosen.size(), HumanSize(read_bytes_)));
  }
  std::sort(rows.begin(), rows.end(),
            [](const RowHistogram& a, const RowHistogram& b) {
              return a.row < b.row;
            });
  rows_ = std::move(rows);
  return {};
}

Outcome RowHistograms::Call(Connection& connection,
                            const v1::ComputeHistogramRequest& request,
                            int64_t read_bytes, v1::Histogram& out,
                            std::string& problem) {
  if (read_bytes > kHistogramReadBytesMax - read_bytes_) {
    problem = fmt::format(
        "{} to read exceed the rest of the limit of {} for one report",
        HumanSize(read_bytes), HumanSize(kHistogramReadBytesMax));
    return {};
  }
  read_bytes_ += read_bytes;
  const Outcome outcome =
      connection.Ask(&v1::TensorService::Stub::ComputeHistogram, request, out);
  if (outcome.ok()) return {};
  using grpc::StatusCode;
  for (const StatusCode code :
       {StatusCode::NOT_FOUND, StatusCode::FAILED_PRECONDITION,
        StatusCode::DATA_LOSS, StatusCode::UNIMPLEMENTED}) {
    if (!IsCode(outcome, code)) continue;
    problem = outcome.error;
    return {};
  }
  return outcome;
}

Outcome RowHistograms::FindRange(Connection& connection, Side& side,
                                 std::string& problem) {
  side.low = kInfinity;
  side.high = -kInfinity;
  v1::ComputeHistogramRequest request;
  request.set_name(side.name);
  request.set_bin_count(1);
  v1::Histogram whole;
  // The daemon determines the extremes first.
  const int64_t read_bytes = side.size_bytes > kHistogramReadBytesMax
                                 ? side.size_bytes
                                 : 2 * side.size_bytes;
  MSITCTL_RETURN_IF_FAILED(
      Call(connection, request, read_bytes, whole, problem));
  if (whole.counts_size() == 1 && whole.counts(0) > 0) {
    side.low = whole.low();
    side.high = whole.high();
  }
  return {};
}

Outcome RowHistograms::FetchRow(Connection& connection, Candidate& candidate,
                                RowHistogram& out) {
  Side& golden = candidate.golden;
  Side& target = candidate.target;
  std::string golden_problem;
  std::string target_problem;
  double low = kInfinity;
  double high = -kInfinity;
  const auto widen = [&](Side& side, std::string& problem) -> Outcome {
    if (side.name.empty()) return {};
    if (!side.knows_range) {
      MSITCTL_RETURN_IF_FAILED(FindRange(connection, side, problem));
    }
    low = std::min(low, side.low);
    high = std::max(high, side.high);
    return {};
  };
  MSITCTL_RETURN_IF_FAILED(widen(golden, golden_problem));
  MSITCTL_RETURN_IF_FAILED(widen(target, target_problem));
  v1::ComputeHistogramRequest request;
  request.set_bin_count(kRowHistogramBins);
  // Without finite elements, the bins are meaningless, but NaN are counted.
  request.set_low(low <= high ? low : 0);
  request.set_high(low <= high ? high : 0);
  const auto fetch = [&](const Side& side, std::string& problem,
                         std::optional<v1::Histogram>& histogram) -> Outcome {
    if (side.name.empty() || !problem.empty()) return {};
    request.set_name(side.name);
    v1::Histogram got;
    MSITCTL_RETURN_IF_FAILED(
        Call(connection, request, side.size_bytes, got, problem));
    if (problem.empty()) histogram = std::move(got);
    return {};
  };
  MSITCTL_RETURN_IF_FAILED(fetch(golden, golden_problem, out.golden));
  if (candidate.is_equal && out.golden.has_value()) {
    out.target = out.golden;
    return {};
  }
  MSITCTL_RETURN_IF_FAILED(fetch(target, target_problem, out.target));
  const std::string first = Problem("golden", golden_problem);
  const std::string second = Problem("target", target_problem);
  out.note = first + (first.empty() || second.empty() ? "" : "; ") + second;
  return {};
}

}  // namespace msitd::ask
