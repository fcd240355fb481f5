// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/row_histograms.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "client/ask/query/together.h"
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

bool IsBusy(const Outcome& outcome) {
  return IsCode(outcome, grpc::StatusCode::RESOURCE_EXHAUSTED);
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
  for (Candidate& candidate : chosen) Plan(candidate);
  std::vector<RowHistogram> rows(chosen.size());
  // Those of the rows that were requested.
  std::vector<std::optional<Outcome>> outcomes(chosen.size());
  std::atomic<size_t> done_count{0};
  const auto fetch = [&](size_t i) {
    rows[i].row = chosen[i].row;
    rows[i].note = chosen[i].assembled;
    outcomes[i] = rows[i].note.empty()
                      ? FetchRow(connection, chosen[i], rows[i])
                      : Outcome();
    if (!outcomes[i]->ok()) return false;
    done_count.fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  const auto tell = [&] {
    show(fmt::format("histograms: {} of {} rows",
                     done_count.load(std::memory_order_relaxed),
                     chosen.size()));
  };
  ForEachAtOnce(connection, chosen.size(), fetch, tell);
  for (const std::optional<Outcome>& outcome : outcomes) {
    if (outcome.has_value() && !outcome->ok() && !IsBusy(*outcome)) {
      return *outcome;
    }
  }
  // A daemon may be too busy for several calls of a caller at the same time.
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (outcomes[i].has_value() && outcomes[i]->ok()) continue;
    if (!fetch(i)) return *outcomes[i];
    tell();
  }
  std::sort(rows.begin(), rows.end(),
            [](const RowHistogram& a, const RowHistogram& b) {
              return a.row < b.row;
            });
  rows_ = std::move(rows);
  return {};
}

std::string RowHistograms::Reserve(int64_t read_bytes) {
  if (read_bytes > kHistogramReadBytesMax - read_bytes_) {
    return fmt::format(
        "{} to read exceed the rest of the limit of {} for one report",
        HumanSize(read_bytes), HumanSize(kHistogramReadBytesMax));
  }
  read_bytes_ += read_bytes;
  return "";
}

void RowHistograms::Plan(Candidate& candidate) {
  if (!candidate.assembled.empty()) return;
  Side& golden = candidate.golden;
  Side& target = candidate.target;
  for (Side* const side : {&golden, &target}) {
    if (side->name.empty() || side->knows_range) continue;
    // The daemon determines the extremes first.
    side->problem = Reserve(side->size_bytes > kHistogramReadBytesMax
                                ? side->size_bytes
                                : 2 * side->size_bytes);
  }
  const auto plan = [this](Side& side) {
    if (side.name.empty() || !side.problem.empty()) return;
    side.problem = Reserve(side.size_bytes);
  };
  plan(golden);
  // If golden cannot be read, its bytes are left for an equal target.
  const bool has_golden = !golden.name.empty() && golden.problem.empty();
  if (!candidate.is_equal || !has_golden) plan(target);
}

Outcome RowHistograms::Call(Connection& connection,
                            const v1::ComputeHistogramRequest& request,
                            Side& side, v1::Histogram& out) {
  const Outcome outcome =
      connection.Ask(&v1::TensorService::Stub::ComputeHistogram, request, out);
  if (outcome.ok()) return {};
  using grpc::StatusCode;
  for (const StatusCode code :
       {StatusCode::NOT_FOUND, StatusCode::FAILED_PRECONDITION,
        StatusCode::DATA_LOSS, StatusCode::UNIMPLEMENTED}) {
    if (!IsCode(outcome, code)) continue;
    side.problem = outcome.error;
    return {};
  }
  return outcome;
}

Outcome RowHistograms::FindRange(Connection& connection, Side& side) {
  side.low = kInfinity;
  side.high = -kInfinity;
  if (!side.problem.empty()) return {};
  v1::ComputeHistogramRequest request;
  request.set_name(side.name);
  request.set_bin_count(1);
  v1::Histogram whole;
  MSITCTL_RETURN_IF_FAILED(Call(connection, request, side, whole));
  if (whole.counts_size() == 1 && whole.counts(0) > 0) {
    side.low = whole.low();
    side.high = whole.high();
  }
  side.knows_range = true;
  return {};
}

Outcome RowHistograms::FetchRow(Connection& connection, Candidate& candidate,
                                RowHistogram& out) {
  Side& golden = candidate.golden;
  Side& target = candidate.target;
  double low = kInfinity;
  double high = -kInfinity;
  for (Side* const side : {&golden, &target}) {
    if (side->name.empty()) continue;
    if (!side->knows_range) {
      MSITCTL_RETURN_IF_FAILED(FindRange(connection, *side));
    }
    low = std::min(low, side->low);
    high = std::max(high, side->high);
  }
  v1::ComputeHistogramRequest request;
  request.set_bin_count(kRowHistogramBins);
  // Without finite elements, the bins are meaningless, but NaN are counted.
  request.set_low(low <= high ? low : 0);
  request.set_high(low <= high ? high : 0);
  const auto fetch = [&](Side& side,
                         std::optional<v1::Histogram>& histogram) -> Outcome {
    // A repeated fetch does not read a side again.
    if (side.name.empty() || !side.problem.empty() || histogram.has_value()) {
      return {};
    }
    request.set_name(side.name);
    v1::Histogram got;
    MSITCTL_RETURN_IF_FAILED(Call(connection, request, side, got));
    if (side.problem.empty()) histogram = std::move(got);
    return {};
  };
  MSITCTL_RETURN_IF_FAILED(fetch(golden, out.golden));
  if (candidate.is_equal && out.golden.has_value()) {
    out.target = out.golden;
    return {};
  }
  MSITCTL_RETURN_IF_FAILED(fetch(target, out.target));
  const std::string first = Problem("golden", golden.problem);
  const std::string second = Problem("target", target.problem);
  out.note = first + (first.empty() || second.empty() ? "" : "; ") + second;
  return {};
}

}  // namespace msitd::ask
