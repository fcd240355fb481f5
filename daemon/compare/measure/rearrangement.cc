// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/rearrangement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/measure/element_reader.h"
#include "daemon/compare/measure/row_matcher.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compare/view/view_parser.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/shape.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Kind = Rearrangement::Kind;
using Dims = std::vector<int64_t>;

// Tensors with more dimensions are not permuted.
constexpr size_t kPermutedDimsMax = 4;
// Lengths of heads that are tried for rotary embeddings.
constexpr int64_t kHeadLengths[] = {16, 32, 64, 80, 96, 112, 128, 192, 256};
constexpr uint64_t kStepElements = 4096;
// Rows of fewer elements must be equal.
constexpr uint64_t kWideRow = 8;

bool AreNear(double a, double b, double scale, double tolerance) {
  // Sums are rounded, partly in float32.
  constexpr double kSumError = 1e-5;
  return std::fabs(a - b) <= (tolerance + kSumError) * scale;
}

bool IsPlain(const LogicalTensor& tensor) {
  return tensor.kind == RecordKind::kTensor && tensor.has_bytes &&
         tensor.view == nullptr && !tensor.mapped_pair.has_value() &&
         tensor.assembly == nullptr && tensor.knows_summary &&
         !IsComplex(tensor.dtype);
}

std::string StepText(std::string_view step, const Dims& numbers) {
  return fmt::format("{}({})", step, fmt::join(numbers, ","));
}

// Compares the elements of two tensors in different arrangements.
class ArrangementTest {
 public:
  ArrangementTest(const ArrangedElements& golden,
                  const ArrangedElements& target, double tolerance)
      : golden_(golden), target_(target) {
    for (const double x : golden.values) {
      squares_ += std::isfinite(x) ? x * x : 0;
    }
    squares_max_ = tolerance * tolerance * squares_;
  }

  // Returns whether the tensors agree as they are.
  bool AreEqual() const {
    return std::ranges::equal(golden_.shape, target_.shape) &&
           ErrorOf("", false).has_value();
  }

  // Returns the error of one tensor, as seen in `text`, relative to the golden
  // one. nullopt if it does not agree with the other one.
  std::optional<double> ErrorOf(const std::string& text,
                                bool is_of_golden) const {
    const ArrangedElements& from = is_of_golden ? golden_ : target_;
    const ArrangedElements& to = is_of_golden ? target_ : golden_;
    std::vector<ViewStep> steps;
    if (!text.empty()) {
      auto parsed = ParseView(text);
      if (!parsed.ok()) return std::nullopt;
      steps = *std::move(parsed);
    }
    const ViewLeaf leaf = {Dims(from.shape.begin(), from.shape.end()),
                           from.dtype};
    const auto plan = MakeViewPlan(steps, {&leaf, 1});
    if (!plan.ok() || !std::ranges::equal(plan->shape, to.shape)) {
      return std::nullopt;
    }
    double squares = 0;
    for (uint64_t begin = 0;
         begin < to.values.size() && squares <= squares_max_;
         begin += kStepElements) {
      const uint64_t count =
          std::min<uint64_t>(kStepElements, to.values.size() - begin);
      plan->terms.front().VisitRuns(begin, count, [&](const GatherRun& run) {
        size_t at = begin + run.to;
        for (uint64_t i = 0; i < run.count; ++i) {
          for (uint64_t j = 0; j < run.length; ++j, ++at) {
            const double a = from.values[run.from + i * run.stride + j];
            const double b = to.values[at];
            if (a == b || (std::isnan(a) && std::isnan(b))) continue;
            squares += (a - b) * (a - b);
          }
        }
      });
    }
    if (!(squares <= squares_max_)) return std::nullopt;  // Or NaN.
    return squares_ > 0 ? std::sqrt(squares / squares_) : 0;
  }

 private:
  const ArrangedElements golden_;
  const ArrangedElements target_;
  double squares_ = 0;  // Sum over the golden tensor.
  double squares_max_ = 0;
};

// The elements of a pair.
class RearrangedPair {
 public:
  RearrangedPair(const TensorPair& pair, double tolerance)
      : pair_(pair), tolerance_(tolerance) {}

  absl::Status Read(storage::RunReader& golden, storage::RunReader& target,
                    WorkObserver& observer) {
    MSITD_RETURN_IF_ERROR(ReadSide(*pair_.golden, "golden", golden, observer,
                                   golden_bytes_, golden_));
    return ReadSide(*pair_.target, "target", target, observer, target_bytes_,
                    target_);
  }

  ArrangedElements golden() const {
    return {golden_, pair_.golden->shape, pair_.golden->dtype};
  }
  ArrangedElements target() const {
    return {target_, pair_.target->shape, pair_.target->dtype};
  }

  // Returns whether the rows along a dimension agree in another order.
  absl::StatusOr<bool> AgreeInAnyOrder(size_t dim,
                                       WorkObserver& observer) const {
    const Dims& shape = pair_.golden->shape;
    RowSlices rows;
    rows.count = static_cast<uint64_t>(shape[dim]);
    for (size_t i = 0; i < shape.size(); ++i) {
      (i < dim ? rows.outer : rows.inner) *=
          i == dim ? 1 : static_cast<uint64_t>(shape[i]);
    }
    // Unrelated rows of few elements may be within a tolerance.
    const double tolerance = rows.width() < kWideRow ? 0 : tolerance_;
    MSITD_ASSIGN_OR_RETURN(
        const RowMatch match,
        MatchRows(
            {std::as_bytes(std::span(golden_bytes_)), pair_.golden->dtype},
            {std::as_bytes(std::span(target_bytes_)), pair_.target->dtype},
            rows, tolerance, [&observer] { return observer.Check(); }));
    return match.alone_count == 0 && match.moved_count > 0;
  }

 private:
  static absl::Status ReadSide(const LogicalTensor& tensor,
                               std::string_view side, storage::RunReader& run,
                               WorkObserver& observer, std::string& bytes,
                               std::vector<double>& values) {
    MSITD_ASSIGN_OR_RETURN(
        bytes, ReadElements<std::string>(tensor, side, run, observer));
    const uint64_t count = ElementCount(tensor.shape);
    values.resize(count);
    compute::ToDouble(tensor.dtype,
                      reinterpret_cast<const std::byte*>(bytes.data()), count,
                      values.data());
    return absl::OkStatus();
  }

  const TensorPair& pair_;
  const double tolerance_;
  std::string golden_bytes_;
  std::string target_bytes_;
  std::vector<double> golden_;
  std::vector<double> target_;
};

// Adds views of `shape` as `wanted` that exchange axes. The number of elements
// must be equal.
void AddPermutations(const Dims& shape, const Dims& wanted,
                     std::vector<Rearrangement>& out) {
  if (std::max(shape.size(), wanted.size()) > kPermutedDimsMax) return;
  const auto text = [](const std::vector<std::string>& steps) {
    return fmt::format("{}", fmt::join(steps, "."));
  };
  Dims order(shape.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  while (std::next_permutation(order.begin(), order.end())) {
    Dims permuted;
    for (const int64_t dim : order) permuted.push_back(shape[dim]);
    std::vector<std::string> steps = {StepText("permute", order)};
    if (permuted != wanted) steps.push_back(StepText("reshape", wanted));
    out.push_back({Kind::kAxes, text(steps)});
  }
  if (shape.size() == wanted.size()) return;
  // The axes of `wanted` may be merged in `shape`.
  order.resize(wanted.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  while (std::next_permutation(order.begin(), order.end())) {
    Dims permuted;
    Dims inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      permuted.push_back(wanted[order[i]]);
      inverse[order[i]] = static_cast<int64_t>(i);
    }
    out.push_back({Kind::kAxes, text({StepText("reshape", permuted),
                                      StepText("permute", inverse)})});
  }
}

// Adds views with which heads move in front of the dimension before them.
void AddHeads(const Dims& golden, const Dims& target,
              std::vector<Rearrangement>& out) {
  for (const bool is_of_golden : {false, true}) {
    const Dims& wanted = is_of_golden ? target : golden;
    if (wanted.size() < 3) continue;
    out.push_back({Kind::kHeads,
                   fmt::format("heads({})", wanted[wanted.size() - 3]),
                   is_of_golden});
  }
}

// Adds views of rotary embeddings, of whole rows or of each head.
void AddRopePairs(const Dims& shape, std::vector<Rearrangement>& out) {
  if (shape.empty() || shape.back() % 2 != 0) return;
  std::vector<std::string> texts = {"rope_pairs(-1)"};
  for (const int64_t length : kHeadLengths) {
    if (shape.back() % length != 0 || shape.back() == length) continue;
    Dims heads = shape;
    heads.back() /= length;
    heads.push_back(length);
    texts.push_back(fmt::format("{}.rope_pairs(-1).{}",
                                StepText("reshape", heads),
                                StepText("reshape", shape)));
  }
  for (const std::string& text : texts) {
    for (const bool is_of_golden : {false, true}) {
      out.push_back({Kind::kRopePairs, text, is_of_golden});
    }
  }
}

}  // namespace

bool MayBeRearranged(const TensorPair& pair, double tolerance) {
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  if (!IsPlain(golden) || !IsPlain(target) || pair.mapped_pair.has_value() ||
      golden.tensor_bytes + target.tensor_bytes > kRearrangedBytesMax) {
    return false;
  }
  const Summary& a = golden.summary;
  const Summary& b = target.summary;
  const double largest = std::max(a.abs_max(), b.abs_max());
  return a.count == b.count && a.count > 1 && a.nan_count == b.nan_count &&
         a.positive_infinity_count == b.positive_infinity_count &&
         a.negative_infinity_count == b.negative_infinity_count &&
         (!std::isfinite(largest) ||
          (AreNear(a.min, b.min, largest, tolerance) &&
           AreNear(a.max, b.max, largest, tolerance))) &&
         AreNear(a.sum, b.sum, a.l1, tolerance) &&
         AreNear(a.l2_norm(), b.l2_norm(), a.l2_norm(), tolerance);
}

std::string_view FindingOf(Rearrangement::Kind kind) {
  switch (kind) {
    case Kind::kShape:
      return "the elements of golden in another shape";
    case Kind::kAxes:
      return "the elements of golden with its axes in another order";
    case Kind::kHeads:
      return "the elements of golden with its heads in another place";
    case Kind::kRopePairs:
      return "alternating pairs where golden has halves, or the reverse";
    case Kind::kRows:
      break;
  }
  return "the rows of golden in another order";
}

absl::StatusOr<std::optional<FoundArrangement>> FindArrangement(
    const ArrangedElements& golden, const ArrangedElements& target,
    double tolerance, WorkObserver& observer) {
  const ArrangementTest elements(golden, target, tolerance);
  const Dims from(golden.shape.begin(), golden.shape.end());
  const Dims to(target.shape.begin(), target.shape.end());
  if (elements.AreEqual()) return std::nullopt;
  std::vector<Rearrangement> offered;
  if (from != to) {
    offered.push_back({Kind::kShape, StepText("reshape", from)});
    AddHeads(from, to, offered);
  }
  AddPermutations(to, from, offered);
  if (from == to) {
    // The axes of golden are exchanged, and the result has its shape again.
    std::vector<Rearrangement> of_golden;
    AddPermutations(from, to, of_golden);
    for (Rearrangement& one : of_golden) {
      one.is_of_golden = true;
      if (one.view.find("reshape") != std::string::npos) {
        offered.push_back(std::move(one));
      }
    }
  }
  if (from == to) AddRopePairs(to, offered);
  for (Rearrangement& one : offered) {
    MSITD_RETURN_IF_ERROR(observer.Check());
    const auto error = elements.ErrorOf(one.view, one.is_of_golden);
    if (error.has_value()) return FoundArrangement{std::move(one), *error};
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Rearrangement>> FindRearrangement(
    const TensorPair& pair, double tolerance, storage::RunReader& golden_run,
    storage::RunReader& target_run, WorkObserver& observer) {
  RearrangedPair elements(pair, tolerance);
  MSITD_RETURN_IF_ERROR(elements.Read(golden_run, target_run, observer));
  const Dims& golden = pair.golden->shape;
  const Dims& target = pair.target->shape;
  MSITD_ASSIGN_OR_RETURN(std::optional<FoundArrangement> placed,
                         FindArrangement(elements.golden(), elements.target(),
                                         tolerance, observer));
  if (placed.has_value()) return std::move(placed->arrangement);
  if (golden != target) return std::nullopt;
  // The last dimension has the features of a row.
  for (size_t dim = 0; dim < std::max<size_t>(golden.size(), 2) - 1; ++dim) {
    MSITD_ASSIGN_OR_RETURN(const bool agrees,
                           elements.AgreeInAnyOrder(dim, observer));
    if (agrees) {
      return Rearrangement{Kind::kRows, fmt::format("any_order({})", dim)};
    }
  }
  return std::nullopt;
}

}  // namespace msitd::compare
