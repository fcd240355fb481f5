// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/row_matcher.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/compare/measure/point_tree.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr size_t kProjections = 8;
// Rows near a point whose elements are compared, unless the nearest one is the
// right one beyond doubt.
constexpr size_t kCandidatesMax = 4;
// How many rows give up their partner, one for the other, so that a row
// receives one.
constexpr int kMovesMax = 32;
constexpr uint64_t kCheckedBytes = uint64_t{1} << 20;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

using Numbers = std::vector<uint32_t>;

// Reads single rows of one side.
class RowReader {
 public:
  RowReader(const RowSide& side, const RowSlices& slices)
      : side_(side),
        component_(compute::ComponentOf(side.dtype)),
        slices_(slices),
        run_bytes_(slices.inner * ElementBytes(side.dtype)) {
    if (slices.outer > 1) scratch_.resize(slices.outer * run_bytes_);
  }

  // Number of values of a row; a complex element has two.
  size_t width() const {
    return slices_.width() * (IsComplex(side_.dtype) ? 2 : 1);
  }

  // The result is valid until the next call.
  std::span<const std::byte> Bytes(uint32_t row) {
    const auto run = [&](uint64_t block) {
      return side_.bytes.subspan((block * slices_.count + row) * run_bytes_,
                                 run_bytes_);
    };
    if (slices_.outer == 1) return run(0);
    for (uint64_t block = 0; block < slices_.outer; ++block) {
      std::memcpy(&scratch_[block * run_bytes_], run(block).data(), run_bytes_);
    }
    return scratch_;
  }

  void Values(uint32_t row, std::vector<double>& out) {
    out.resize(width());
    compute::ToDouble(component_, Bytes(row).data(), out.size(), out.data());
  }

 private:
  const RowSide side_;
  const DType component_;
  const RowSlices slices_;
  const size_t run_bytes_;
  std::vector<std::byte> scratch_;
};

// Calls `check` after every kCheckedBytes of rows.
class RowChecker {
 public:
  RowChecker(size_t width, absl::FunctionRef<absl::Status()> check)
      : interval_(kCheckedBytes / (sizeof(double) * (width + 1)) + 1),
        check_(check) {}

  absl::Status Next() {
    return ++count_ % interval_ == 0 ? check_() : absl::OkStatus();
  }

 private:
  const uint64_t interval_;
  uint64_t count_ = 0;
  absl::FunctionRef<absl::Status()> check_;
};

struct HashedRow {
  uint64_t high = 0;
  uint64_t low = 0;
  uint32_t row = 0;

  friend auto operator<=>(const HashedRow&, const HashedRow&) = default;
  bool IsEqual(const HashedRow& other) const {
    return high == other.high && low == other.low;
  }
  bool IsBefore(const HashedRow& other) const {
    return std::pair(high, low) < std::pair(other.high, other.low);
  }
};

// Writes values so that equal ones have equal bytes.
void Normalize(std::vector<double>& values) {
  for (double& value : values) {
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    value += 0.0;  // Turns -0 into 0.
  }
}

static_assert(kProjections == 8);
constexpr auto kSigns = [] {
  std::array<std::array<double, kProjections>, 256> out = {};
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t j = 0; j < kProjections; ++j) {
      out[i][j] = (i >> j & 1) != 0 ? 1 : -1;
    }
  }
  return out;
}();

// Scales columns to a common deviation and projects rows to points.
class RowProjector {
 public:
  RowProjector(size_t width, double tolerance)
      : dims_(std::min(width, kProjections)),
        tolerance_(tolerance),
        shifts_(width),
        sums_(width),
        squares_(width),
        signs_(width) {
    // Signs that are the same in each call: those of splitmix64.
    uint64_t state = 0;
    for (uint8_t& signs : signs_) {
      uint64_t bits = state += 0x9e3779b97f4a7c15;
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
      signs = static_cast<uint8_t>(bits >> 56);
    }
  }

  size_t dims() const { return dims_; }
  // True if a point has all values of its row.
  bool is_exact() const { return dims_ == signs_.size(); }

  // Adds a golden row to the deviations of the columns.
  void Add(const std::vector<double>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!std::isfinite(row[i])) continue;
      if (count_ == 0) shifts_[i] = row[i];
      const double value = row[i] - shifts_[i];
      sums_[i] += value;
      squares_[i] += value * value;
    }
    ++count_;
  }

  // Completes the deviations. A column that varies less than the tolerance
  // consists of errors only.
  void Finish() {
    scales_.resize(shifts_.size());
    for (size_t i = 0; i < shifts_.size(); ++i) {
      const double mean = sums_[i] / static_cast<double>(count_);
      const double variance =
          squares_[i] / static_cast<double>(count_) - mean * mean;
      const double deviation = std::sqrt(std::max(variance, 0.0));
      shifts_[i] += mean;
      scales_[i] = 1 / (deviation + tolerance_ * std::fabs(shifts_[i]));
      if (!(deviation > 0) || !std::isfinite(scales_[i])) scales_[i] = 0;
    }
  }

  double Scaled(size_t column, double value) const {
    if (!std::isfinite(value) || scales_[column] == 0) return 0;
    return std::clamp((value - shifts_[column]) * scales_[column], -1e6, 1e6);
  }

  // Appends the point of a row.
  void Project(const std::vector<double>& row, std::vector<float>& out) const {
    std::array<double, kProjections> point = {};
    if (row.size() <= kProjections) {
      for (size_t i = 0; i < row.size(); ++i) point[i] = Scaled(i, row[i]);
    } else {
      for (size_t i = 0; i < row.size(); ++i) {
        const double value = Scaled(i, row[i]);
        const auto& signs = kSigns[signs_[i]];
        for (size_t j = 0; j < kProjections; ++j) point[j] += signs[j] * value;
      }
    }
    for (size_t i = 0; i < dims_; ++i) {
      out.push_back(static_cast<float>(std::clamp(point[i], -1e14, 1e14)));
    }
  }

 private:
  const size_t dims_;
  const double tolerance_;
  uint64_t count_ = 0;
  std::vector<double> shifts_;
  std::vector<double> sums_;
  std::vector<double> squares_;
  std::vector<double> scales_;
  std::vector<uint8_t> signs_;  // One bit for each projection.
};

// Returns the difference of two numbers; infinite if one of them is NaN or an
// infinity that the other is not.
double DifferenceOf(double golden, double target) {
  if (golden == target) return 0;
  if (std::isfinite(golden) && std::isfinite(target)) return target - golden;
  return std::isnan(golden) && std::isnan(target) ? 0 : kUnbounded;
}

double NormOf(const std::vector<double>& row) {
  double out = 0;
  for (const double x : row) out += std::isfinite(x) ? x * x : 0;
  return std::sqrt(out);
}

class RowMatcher {
 public:
  RowMatcher(const RowSide& golden, const RowSide& target,
             const RowSlices& slices, double tolerance,
             absl::FunctionRef<absl::Status()> check)
      : golden_(golden, slices),
        target_(target, slices),
        are_alike_(golden.dtype == target.dtype),
        count_(slices.count),
        tolerance_(tolerance),
        checker_(golden_.width(), check),
        partners_(count_, kNone) {}

  absl::StatusOr<RowMatch> Match() {
    MSITD_RETURN_IF_ERROR(MatchEqual());
    if (!goldens_.empty()) {
      MSITD_RETURN_IF_ERROR(FindTolerance());
      MSITD_RETURN_IF_ERROR(MatchNear(floor_));
    }
    RowMatch out;
    out.alone_count = goldens_.size();
    const auto first = [](Numbers rows) {
      std::sort(rows.begin(), rows.end());
      rows.resize(std::min(rows.size(), kAloneRowsMax));
      return rows;
    };
    out.alone_golden = first(goldens_);
    out.alone_target = first(targets_);
    if (!goldens_.empty()) MSITD_RETURN_IF_ERROR(MatchNear(std::nullopt));
    // A search for near rows may miss some.
    for (size_t i = 0; i < goldens_.size(); ++i) {
      partners_[goldens_[i]] = targets_[i];
    }
    for (uint32_t i = 0; i < count_; ++i) {
      if (partners_[i] != i) ++out.moved_count;
    }
    out.partners = std::move(partners_);
    return out;
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  absl::StatusOr<std::vector<HashedRow>> Hash(RowReader& side) {
    std::vector<HashedRow> out;
    out.reserve(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      std::span<const std::byte> bytes;
      if (are_alike_) {
        bytes = side.Bytes(i);
      } else {
        side.Values(i, row_);
        Normalize(row_);
        bytes = std::as_bytes(std::span(row_));
      }
      const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
      out.push_back({hash.high64, hash.low64, i});
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Joins rows of equal hashes. The other rows remain in `goldens_` and
  // `targets_`.
  absl::Status MatchEqual() {
    MSITD_ASSIGN_OR_RETURN(const auto goldens, Hash(golden_));
    MSITD_ASSIGN_OR_RETURN(const auto targets, Hash(target_));
    size_t i = 0;
    size_t j = 0;
    while (i < count_ || j < count_) {
      if (j == count_ || (i < count_ && goldens[i].IsBefore(targets[j]))) {
        goldens_.push_back(goldens[i++].row);
      } else if (i == count_ || targets[j].IsBefore(goldens[i])) {
        targets_.push_back(targets[j++].row);
      } else {
        partners_[goldens[i++].row] = targets[j++].row;
      }
    }
    std::sort(goldens_.begin(), goldens_.end());
    std::sort(targets_.begin(), targets_.end());
    return absl::OkStatus();
  }

  // Sets `floor_` to the tolerance of a row whose norm is the median.
  absl::Status FindTolerance() {
    std::vector<double> norms;
    norms.reserve(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      golden_.Values(i, row_);
      norms.push_back(NormOf(row_));
    }
    const auto middle = norms.begin() + static_cast<ptrdiff_t>(count_ / 2);
    std::nth_element(norms.begin(), middle, norms.end());
    floor_ = tolerance_ * *middle;
    return absl::OkStatus();
  }

  // Joins rows that differ by at most the tolerance, whose least value is
  // `floor`, or by any amount if that is absent.
  absl::Status MatchNear(std::optional<double> floor) {
    return golden_.width() == 1 ? MatchInOrder(floor) : MatchPoints(floor);
  }

  // Matches rows of one element: those of both sides in ascending order.
  absl::Status MatchInOrder(std::optional<double> floor) {
    const auto sorted = [this](RowReader& side, const Numbers& rows) {
      std::vector<std::pair<double, uint32_t>> out;
      for (const uint32_t row : rows) {
        side.Values(row, row_);
        out.emplace_back(row_[0], row);
      }
      std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        if (std::isnan(a.first) != std::isnan(b.first)) {
          return std::isnan(b.first);
        }
        return a.first != b.first && !std::isnan(a.first) ? a.first < b.first
                                                          : a.second < b.second;
      });
      return out;
    };
    const auto goldens = sorted(golden_, goldens_);
    const auto targets = sorted(target_, targets_);
    goldens_.clear();
    targets_.clear();
    size_t i = 0;
    size_t j = 0;
    while (i < goldens.size() && j < targets.size()) {
      const auto& [value, row] = goldens[i];
      const double norm = std::isfinite(value) ? std::fabs(value) : 0;
      const double difference =
          std::fabs(DifferenceOf(value, targets[j].first));
      if (!floor.has_value() ||
          (std::isfinite(difference) &&
           difference <= std::max(tolerance_ * norm, *floor))) {
        partners_[row] = targets[j++].second;
        ++i;
      } else if (std::isnan(targets[j].first) || targets[j].first > value) {
        goldens_.push_back(goldens[i++].second);
      } else {
        targets_.push_back(targets[j++].second);
      }
    }
    for (; i < goldens.size(); ++i) goldens_.push_back(goldens[i].second);
    for (; j < targets.size(); ++j) targets_.push_back(targets[j].second);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> PointsOf(RowReader& side,
                                              const Numbers& rows,
                                              const RowProjector& projector) {
    std::vector<float> out;
    out.reserve(rows.size() * projector.dims());
    for (const uint32_t row : rows) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      side.Values(row, row_);
      projector.Project(row_, out);
    }
    return out;
  }

  absl::Status MatchPoints(std::optional<double> floor) {
    RowProjector projector(golden_.width(), tolerance_);
    for (const uint32_t row : goldens_) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      golden_.Values(row, row_);
      projector.Add(row_);
    }
    projector.Finish();
    MSITD_ASSIGN_OR_RETURN(const std::vector<float> points,
                           PointsOf(golden_, goldens_, projector));
    MSITD_ASSIGN_OR_RETURN(std::vector<float> of_target,
                           PointsOf(target_, targets_, projector));
    PointTree tree(std::move(of_target), projector.dims());
    Search search = {tree, projector, points, floor,
                     Numbers(targets_.size(), kNone)};
    Numbers alone;
    for (const uint32_t i : InOrderOfLeaves(search)) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      const std::optional<uint32_t> found =
          Nearest(i, PointTree::Among::kRemaining, search);
      if (found.has_value()) {
        tree.Remove(*found);
        search.users[*found] = i;
      } else {
        alone.push_back(i);
      }
    }
    Numbers rows;
    for (const uint32_t i : alone) {
      MSITD_RETURN_IF_ERROR(checker_.Next());
      if (const auto left = Displace(i, search))
        rows.push_back(goldens_[*left]);
    }
    Numbers left;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (search.users[i] == kNone) {
        left.push_back(targets_[i]);
      } else {
        partners_[goldens_[search.users[i]]] = targets_[i];
      }
    }
    goldens_ = std::move(rows);
    targets_ = std::move(left);
    return absl::OkStatus();
  }

  // A search for partners of `goldens_` among `targets_`. Rows are numbered as
  // in these lists.
  struct Search {
    PointTree& tree;
    const RowProjector& projector;
    const std::vector<float>& points;  // Those of the golden rows.
    const std::optional<double> floor;
    Numbers users;  // The golden row of each target row.

    std::span<const float> PointOf(uint32_t golden) const {
      const size_t dims = projector.dims();
      return std::span(points).subspan(golden * dims, dims);
    }
  };

  // Returns the numbers of the golden rows in an order in which consecutive
  // ones are near each other, so that their searches share memory.
  Numbers InOrderOfLeaves(const Search& search) const {
    std::vector<std::pair<uint32_t, uint32_t>> leaves;
    leaves.reserve(goldens_.size());
    for (uint32_t i = 0; i < goldens_.size(); ++i) {
      leaves.emplace_back(search.tree.LeafAt(search.PointOf(i)), i);
    }
    std::sort(leaves.begin(), leaves.end());
    Numbers out;
    out.reserve(leaves.size());
    for (const auto& [leaf, i] : leaves) out.push_back(i);
    return out;
  }

  // Gives a golden row the target row of another one, which receives another
  // one, and so on, until a target row is free. Returns the golden row that
  // remains without one; nothing if all have one.
  std::optional<uint32_t> Displace(uint32_t golden, Search& search) {
    for (int i = 0; i < kMovesMax; ++i) {
      std::optional<uint32_t> found =
          Nearest(golden, PointTree::Among::kRemaining, search);
      if (found.has_value()) {
        search.tree.Remove(*found);
        search.users[*found] = golden;
        return std::nullopt;
      }
      found = Nearest(golden, PointTree::Among::kAll, search,
                      /*turn=*/static_cast<size_t>(i));
      if (!found.has_value() || search.users[*found] == kNone) return golden;
      std::swap(golden, search.users[*found]);
    }
    return golden;
  }

  // Returns the row near a golden row that is most similar to it, or another
  // one for each `turn`; nothing if none is within the tolerance.
  std::optional<uint32_t> Nearest(uint32_t golden, PointTree::Among among,
                                  Search& search,
                                  std::optional<size_t> turn = std::nullopt) {
    std::array<PointTree::Neighbor, kCandidatesMax> near;
    const auto point = search.PointOf(golden);
    golden_.Values(goldens_[golden], golden_row_);
    const double tolerance =
        std::max(tolerance_ * NormOf(golden_row_), search.floor.value_or(0));
    if (!turn.has_value()) {
      if (search.tree.FindNear(point, among, std::span(near).first(1)) == 0) {
        return std::nullopt;
      }
      const double scaled = Distance(near[0].point, tolerance, search);
      // The projections of errors are as large as the errors. Other rows are
      // near only in the projections.
      const double share = search.projector.is_exact() ? 0 : 2;
      if (scaled * share <= near[0].distance) return near[0].point;
    }
    const size_t count = search.tree.FindNear(point, among, near);
    std::optional<uint32_t> best;
    double least = kUnbounded;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = turn.has_value() ? (i + *turn) % count : i;
      const double scaled = Distance(near[at].point, tolerance, search);
      if (std::isnan(scaled) || (best.has_value() && scaled >= least)) continue;
      best = near[at].point;
      least = scaled;
      if (turn.has_value()) break;
    }
    return best;
  }

  // Returns the squared distance of a target row from `golden_row_` after
  // scaling; NaN if their difference exceeds the tolerance.
  double Distance(uint32_t target, double tolerance, const Search& search) {
    target_.Values(targets_[target], row_);
    double squares = 0;
    double scaled_squares = 0;
    for (size_t i = 0; i < row_.size(); ++i) {
      const double difference = DifferenceOf(golden_row_[i], row_[i]);
      squares += difference * difference;
      const double scaled = search.projector.Scaled(i, golden_row_[i]) -
                            search.projector.Scaled(i, row_[i]);
      scaled_squares += scaled * scaled;
    }
    const bool is_near =
        !search.floor.has_value() ||
        (std::isfinite(squares) && std::sqrt(squares) <= tolerance);
    return is_near ? scaled_squares : std::numeric_limits<double>::quiet_NaN();
  }

  RowReader golden_;
  RowReader target_;
  const bool are_alike_;
  const uint32_t count_;
  const double tolerance_;
  RowChecker checker_;
  double floor_ = 0;
  Numbers partners_;  // By golden row; kNone until it is known.
  // Rows without a partner so far.
  Numbers goldens_;
  Numbers targets_;
  std::vector<double> row_;
  std::vector<double> golden_row_;
};

}  // namespace

absl::StatusOr<RowMatch> MatchRows(const RowSide& golden, const RowSide& target,
                                   const RowSlices& rows, double tolerance,
                                   absl::FunctionRef<absl::Status()> check) {
  return RowMatcher(golden, target, rows, tolerance, check).Match();
}

}  // namespace msitd::compare
