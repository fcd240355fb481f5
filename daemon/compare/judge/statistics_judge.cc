// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/statistics_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/metric_table.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_statistics.h"
#include "protos/compute/digest.h"

namespace msitd::compare {
namespace {

using Statistics = std::vector<TensorStatistic>;

bool IsOfManyElements(int metric) {
  return compute::MetricTable()[static_cast<size_t>(metric)]
      .is_of_many_elements;
}

bool HasEqualBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::string TextOf(const LogicalTensor& tensor) {
  return tensor.kind == RecordKind::kStatistics
             ? tensor.value
             : StatisticsText(tensor.summary);
}

const TensorStatistic* Find(const Statistics& statistics,
                            std::string_view name) {
  for (const TensorStatistic& one : statistics) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

std::optional<double> NumberOf(const Statistics& statistics,
                               std::string_view name) {
  const TensorStatistic* const one = Find(statistics, name);
  return one == nullptr ? std::nullopt : msitd::NumberOf(*one);
}

// Returns whether a statistic is computed with rounding errors, which may
// differ between implementations. Only extremes are not.
bool IsComputed(std::string_view name) {
  return name != "max" && name != "min";
}

bool IsCount(std::string_view name) {
  return name == "count" || name.ends_with("_count");
}

// Returns the number that an error of the statistic is relative to; nullopt if
// it is relative to the statistic itself. As for elements in scaled_max_abs and
// nl2, it is the largest magnitude or, for the mean, the root mean square if
// that is known.
std::optional<double> ScaleOf(const Statistics& golden, std::string_view name) {
  const auto max = NumberOf(golden, "max");
  const auto min = NumberOf(golden, "min");
  if (name != "max" && name != "min" && name != "mean") return std::nullopt;
  const auto norm = NumberOf(golden, "l2_norm");
  const auto count = NumberOf(golden, "count");
  if (name == "mean" && norm && count && *count > 0) {
    return *norm / std::sqrt(*count);
  }
  if (!max || !min) return std::nullopt;
  return std::max(std::abs(*max), std::abs(*min));
}

// Returns the metrics of two tensors of one element.
template <typename T>
RowMetrics MeasureAs(DType dtype, T target, T golden,
                     const compute::ElementRequest& request) {
  const auto target_bytes = std::as_bytes(std::span(&target, 1));
  const auto golden_bytes = std::as_bytes(std::span(&golden, 1));
  compute::PairAccumulator pair(dtype, dtype);
  pair.Update(target_bytes, golden_bytes);
  RowMetrics out =
      ToRowMetrics(pair.Finish(), compute::Summarize(golden_bytes, dtype));
  if (request.sets != 0) {
    compute::ElementAccumulator elements(dtype, dtype, request);
    elements.Update(target_bytes, golden_bytes);
    AddElementMetrics(elements.Finish(), out);
  }
  return out;
}

// Returns nullopt if the text of the statistic is not an integer.
std::optional<int64_t> IntegerOf(const TensorStatistic& statistic) {
  int64_t out = 0;
  const std::string_view text = statistic.text;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (statistic.is_string || error != std::errc() ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  return out;
}

// A metric that needs many elements, and the values of it at which the
// predicate may change its result, from the worst to the best.
struct Choice {
  size_t metric = 0;
  std::vector<double> values;
};

// Returns the choices of all such metrics of the predicate. Returns nullopt if
// the predicate requires more of one of them than bounds in one direction.
std::optional<std::vector<Choice>> ChoicesOf(
    const predicate::Predicate& predicate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Choice> out;
  for (const int name : predicate.Names()) {
    if (!IsOfManyElements(name)) continue;
    Choice choice = {static_cast<size_t>(name), {}};
    bool at_least = true;
    for (const predicate::Predicate::Bound& bound : predicate.Bounds()) {
      if (bound.name != name) continue;
      const bool is_first = choice.values.empty();
      if (!is_first && bound.at_least != at_least) return std::nullopt;
      at_least = bound.at_least;
      const double end = at_least ? kInfinity : -kInfinity;
      choice.values.push_back(
          bound.is_strict ? std::nextafter(bound.number, end) : bound.number);
    }
    if (choice.values.empty()) return std::nullopt;
    choice.values.push_back(-kInfinity);
    choice.values.push_back(kInfinity);
    std::sort(choice.values.begin(), choice.values.end());
    if (!at_least) std::reverse(choice.values.begin(), choice.values.end());
    out.push_back(std::move(choice));
  }
  return out;
}

// Returns whether the predicate holds for two elements that differ; nullopt if
// that depends on metrics that need many elements.
//
// These metrics are assumed to be just good enough. They have the worst values
// with which the predicate would hold for elements that hardly differ. If it
// does not hold even with their best values, it fails, and `metrics` then has
// the best values. `equal` has the metrics of equal elements.
std::optional<bool> HoldsForOne(const predicate::Predicate& predicate,
                                RowMetrics equal, RowMetrics& metrics) {
  constexpr size_t kCounts[] = {
      static_cast<size_t>(compute::Metric::kMismatchCount),
      kFirstElementMetric +
          static_cast<size_t>(compute::ElementMetric::kBitMismatchCount)};
  const auto choices = ChoicesOf(predicate);
  if (!choices.has_value()) return std::nullopt;
  if (choices->empty()) return predicate.Holds(metrics);
  if (choices->size() == predicate.Names().size()) return std::nullopt;
  RowMetrics enough = metrics;
  for (const Choice& choice : *choices) {
    metrics[choice.metric] = equal[choice.metric] = choice.values.back();
  }
  if (!predicate.Holds(metrics)) return false;
  for (const size_t count : kCounts) equal[count] = metrics[count];
  for (const Choice& choice : *choices) {
    RowMetrics tried = equal;
    for (const double value : choice.values) {
      tried[choice.metric] = enough[choice.metric] = value;
      if (predicate.Holds(tried)) break;
    }
  }
  return predicate.Holds(enough) ? std::optional(true) : std::nullopt;
}

// Judges one pair. Run can be called once.
class Judge {
 public:
  Judge(const LogicalTensor& target, const LogicalTensor& golden,
        const Policy& policy, const Basis& basis)
      : target_(target),
        golden_(golden),
        policy_(policy),
        basis_(basis),
        target_text_(TextOf(target)),
        golden_text_(TextOf(golden)) {}

  StatisticsOutcome Run();

 private:
  // Returns whether both sides are of one kind, type and shape, so that equal
  // statistics have equal meanings.
  bool IsOfOneType() const {
    return target_.kind == golden_.kind && target_.dtype == golden_.dtype &&
           target_.shape == golden_.shape;
  }
  bool IsExact() const {
    const auto is_exact = [](DType dtype) { return !IsFloatingPoint(dtype); };
    return is_exact(target_.dtype) && is_exact(golden_.dtype);
  }
  void Decide(v1::Verdict verdict, std::string reason) {
    out_.verdict = verdict;
    out_.reason = std::move(reason);
  }
  void CompareChecksums(const TensorStatistic& target,
                        const TensorStatistic& golden);
  // Records the statistics that only one side has.
  void FindLone();
  // Appends to a reason which statistics are inconclusive.
  std::string WithRemarks(std::string reason);
  // If the policy fails every pair with different checksums, returns what it
  // requires to be equal, "elements" or "checksums"; otherwise nullopt.
  std::optional<std::string_view> RequiresEqual();
  bool HasElements() const {
    return ElementCount(target_.shape) > 0 || ElementCount(golden_.shape) > 0;
  }
  // Returns whether the statistics that agree prove more than the type and the
  // shape.
  bool IsInformed() const;
  std::string WhyNothingIsKnown() const;
  void DecideWithoutFailure();
  void DecideByAgreement(const std::string& agreement);
  void Compare(const TensorStatistic& target, const TensorStatistic& golden);
  // Returns the index of the part for a statistic. Adds the part if it does not
  // exist.
  int PartFor(bool is_computed);
  RowMetrics Measure(const TensorStatistic& target,
                     const TensorStatistic& golden, double target_number,
                     double golden_number,
                     const compute::ElementRequest& request) const;
  void Fail(const TensorStatistic& target, const TensorStatistic& golden,
            const std::string& why);

  const LogicalTensor& target_;
  const LogicalTensor& golden_;
  const Policy& policy_;
  const Basis basis_;
  const std::string target_text_;
  const std::string golden_text_;
  Statistics target_statistics_;
  Statistics golden_statistics_;
  StatisticsOutcome out_;
  std::vector<std::string_view> compared_;
  std::vector<std::string_view> failed_;
  std::string first_failure_;
  std::string equal_crc_;           // As in the reason.
  std::string different_checksum_;  // As in the reason.
  bool has_equal_xor_ = false;
  // Checksums of different types, and statistics that only one side has.
  std::vector<std::string_view> untold_checksums_;
  std::vector<std::string_view> lone_targets_;
  std::vector<std::string_view> lone_goldens_;
  // Kinds of statistics that were compared: numbers, numbers that are NaN on
  // both sides, and counts or texts. The number of elements is not included.
  bool has_number_ = false;
  bool has_nan_ = false;
  bool has_count_ = false;
  // The extremes differ, which proves that the bytes differ.
  bool extremes_differ_ = false;
  bool is_untold_ = false;  // The policy cannot judge a difference.
  // Indices of out_.parts, or -1: the part for most statistics, and the part
  // for computed statistics of integers.
  std::array<int, 2> parts_ = {-1, -1};
};

void Judge::CompareChecksums(const TensorStatistic& target,
                             const TensorStatistic& golden) {
  // The same value has different bytes in different types.
  if (target_.dtype != golden_.dtype) {
    untold_checksums_.push_back(golden.name);
    return;
  }
  if (target != golden) {
    if (!different_checksum_.empty()) return;
    different_checksum_ = fmt::format("{}: target {}, golden {}", golden.name,
                                      target.text, golden.text);
  } else if (golden.name == "xor") {
    has_equal_xor_ = true;
  } else if (IsOfOneType()) {
    equal_crc_ =
        fmt::format("{} is {} on both sides", golden.name, golden.text);
  }
}

void Judge::FindLone() {
  // In this case, the reason only states which side has no statistics.
  if (target_statistics_.empty() || golden_statistics_.empty()) return;
  const auto find = [](const LogicalTensor& side, const Statistics& own,
                       const Statistics& others,
                       std::vector<std::string_view>& lone) {
    // A summary has more statistics than tools record.
    if (side.kind != RecordKind::kStatistics) return;
    for (const TensorStatistic& one : own) {
      if (Find(others, one.name) == nullptr) lone.push_back(one.name);
    }
  };
  find(target_, target_statistics_, golden_statistics_, lone_targets_);
  find(golden_, golden_statistics_, target_statistics_, lone_goldens_);
}

std::string Judge::WithRemarks(std::string reason) {
  const auto add = [&](const std::string& remark) {
    reason += "; " + remark;
    out_.is_in_part = true;
  };
  if (!untold_checksums_.empty()) {
    add(fmt::format("of two types, {} says nothing",
                    fmt::join(untold_checksums_, ", ")));
  }
  if (!lone_goldens_.empty()) {
    add(fmt::format("only golden has {}", fmt::join(lone_goldens_, ", ")));
  }
  if (!lone_targets_.empty()) {
    add(fmt::format("only target has {}", fmt::join(lone_targets_, ", ")));
  }
  return reason;
}

std::optional<std::string_view> Judge::RequiresEqual() {
  constexpr auto kBitwise =
      kFirstElementMetric +
      static_cast<size_t>(compute::ElementMetric::kBitMismatchCount);
  RowMetrics least;
  least[kBitwise] = 1;
  if (IsExact()) {
    least[static_cast<size_t>(compute::Metric::kMismatchCount)] = 1;
  }
  const int number = PartFor(/*is_computed=*/false);
  const Verification& verification =
      out_.parts[static_cast<size_t>(number)].verification;
  const bool by_elements = verification.predicate->CannotHold(least);
  if (!by_elements && !verification.checksums_decide) return std::nullopt;
  out_.deciding_part = number;
  return by_elements ? "elements" : "checksums";
}

bool Judge::IsInformed() const {
  if (has_number_ || !has_nan_) return has_number_ || has_count_;
  const auto count = static_cast<double>(ElementCount(golden_.shape));
  return NumberOf(target_statistics_, "nan_count") == count &&
         NumberOf(golden_statistics_, "nan_count") == count;
}

std::string Judge::WhyNothingIsKnown() const {
  if (has_equal_xor_) return "an equal xor does not prove equal bytes";
  if (has_nan_) {
    return "all numbers are NaN on both sides, and nan_count does not say that "
           "all elements are";
  }
  if (!compared_.empty() || (IsOfOneType() && target_text_ == golden_text_)) {
    return "nothing but type and shape is known";
  }
  if (target_statistics_.empty()) return "no statistic of the target is known";
  if (golden_statistics_.empty()) return "no statistic of the golden is known";
  return "no statistic is known of both sides";
}

int Judge::PartFor(bool is_computed) {
  // Extremes of an integer tensor are exact. Its mean is rounded.
  const bool is_lenient = is_computed && IsExact();
  int& part = parts_[is_lenient ? 1 : 0];
  if (part < 0) {
    part = static_cast<int>(out_.parts.size());
    const DType target = is_lenient ? DType::kFloat32 : target_.dtype;
    const DType golden = is_lenient ? DType::kFloat32 : golden_.dtype;
    StatisticsOutcome::JudgedPart& made = out_.parts.emplace_back();
    const bool is_single = ElementCount(golden_.shape) == 1;
    made.verification = policy_.VerificationFor(
        golden_.key, target, golden, basis_,
        is_single ? PairForm::kSingle : PairForm::kTensors);
    made.verification.request.row_elements = 1;
  }
  return part;
}

RowMetrics Judge::Measure(const TensorStatistic& target,
                          const TensorStatistic& golden, double target_number,
                          double golden_number,
                          const compute::ElementRequest& request) const {
  if (IsExact() && !IsComputed(golden.name)) {
    const auto target_integer = IntegerOf(target);
    const auto golden_integer = IntegerOf(golden);
    if (target_integer && golden_integer) {
      return MeasureAs(DType::kInt64, *target_integer, *golden_integer,
                       request);
    }
  } else if (const auto scale = ScaleOf(golden_statistics_, golden.name);
             scale && std::isfinite(target_number) &&
             std::isfinite(golden_number) && std::isfinite(*scale) &&
             *scale > std::abs(golden_number)) {
    return MeasureAs(DType::kFloat64, *scale + (target_number - golden_number),
                     *scale, request);
  }
  return MeasureAs(DType::kFloat64, target_number, golden_number, request);
}

void Judge::Fail(const TensorStatistic& target, const TensorStatistic& golden,
                 const std::string& why) {
  failed_.push_back(golden.name);
  if (!first_failure_.empty()) return;
  first_failure_ =
      fmt::format("{}: target {}, golden {}{}{}", golden.name, target.text,
                  golden.text, why.empty() ? "" : "; ", why);
}

void Judge::Compare(const TensorStatistic& target,
                    const TensorStatistic& golden) {
  compared_.push_back(golden.name);
  const auto target_number = msitd::NumberOf(target);
  const auto golden_number = msitd::NumberOf(golden);
  if (!target_number || !golden_number || IsCount(golden.name)) {
    const bool agrees = target_number && golden_number
                            ? *target_number == *golden_number
                            : target == golden;
    if (!agrees) Fail(target, golden, "");
    // The number of elements follows from the shape.
    if (golden.name != "count") has_count_ = true;
    return;
  }
  const bool are_nan = std::isnan(*target_number) && std::isnan(*golden_number);
  (are_nan ? has_nan_ : has_number_) = true;
  // Equal statistics pass with any predicate, as equal bytes do.
  const bool is_equal =
      target == golden ||
      (!IsExact() && HasEqualBits(*target_number, *golden_number));
  if (!is_equal && !IsComputed(golden.name)) extremes_differ_ = true;
  const int number = PartFor(IsComputed(golden.name));
  StatisticsOutcome::JudgedPart& part = out_.parts[static_cast<size_t>(number)];
  const Verification& verification = part.verification;
  RowMetrics metrics = Measure(target, golden, *target_number, *golden_number,
                               verification.request);
  for (int i = 0; i < kRowMetricCount; ++i) {
    if (IsOfManyElements(i)) metrics[static_cast<size_t>(i)].reset();
  }
  part.metrics = Worst(part.metrics, metrics);
  if (out_.deciding_part < 0) out_.deciding_part = number;
  if (is_equal) return;
  const auto holds = HoldsForOne(
      *verification.predicate,
      MeasureAs(DType::kFloat64, 1.0, 1.0, verification.request), metrics);
  if (!holds.has_value()) is_untold_ = true;
  if (holds.value_or(true)) return;
  if (failed_.empty()) out_.deciding_part = number;
  Fail(target, golden, verification.predicate->FirstFailure(metrics));
}

StatisticsOutcome Judge::Run() {
  // Invalid statistics are refused when they are received.
  auto target = ParseTensorStatistics(target_text_);
  auto golden = ParseTensorStatistics(golden_text_);
  MSITD_CHECK(target.has_value() && golden.has_value());
  target_statistics_ = *std::move(target);
  golden_statistics_ = *std::move(golden);
  for (const TensorStatistic& one : golden_statistics_) {
    const TensorStatistic* const other = Find(target_statistics_, one.name);
    if (other == nullptr) continue;
    if (IsChecksum(one.name)) {
      CompareChecksums(*other, one);
    } else {
      Compare(*other, one);
    }
  }
  FindLone();
  if (failed_.empty()) {
    DecideWithoutFailure();
  } else {
    std::string reason = "statistics differ: " + first_failure_;
    if (failed_.size() > 1) {
      reason += fmt::format("; so {} {}", failed_.size() == 2 ? "does" : "do",
                            fmt::join(std::span(failed_).subspan(1), ", "));
    }
    Decide(v1::FAIL, std::move(reason));
  }
  // A skipped pair requires no tolerance.
  if (out_.verdict == v1::SKIPPED) {
    out_.parts.clear();
    out_.deciding_part = -1;
  }
  return std::move(out_);
}

void Judge::DecideWithoutFailure() {
  const bool has_other_checksum = !different_checksum_.empty();
  if (!equal_crc_.empty() && !has_other_checksum && !extremes_differ_ &&
      !is_untold_) {
    out_.is_bitwise_equal = true;
    Decide(v1::PASS, equal_crc_);
  } else if (const auto required =
                 has_other_checksum ? RequiresEqual() : std::nullopt) {
    Decide(v1::FAIL,
           fmt::format("the checksums differ, and the policy asks for equal "
                       "{}: {}",
                       *required, different_checksum_));
  } else if (is_untold_) {
    Decide(v1::SKIPPED, "the policy asks for nothing that statistics can tell");
  } else if (IsInformed()) {
    DecideByAgreement(
        fmt::format("statistics agree: {}", fmt::join(compared_, ", ")));
  } else if (!HasElements()) {
    Decide(v1::PASS, "no elements");
  } else if (has_other_checksum) {
    Decide(v1::FAIL, "the checksums differ, and nothing else is known: " +
                         different_checksum_);
  } else {
    Decide(v1::SKIPPED, WithRemarks(WhyNothingIsKnown()));
  }
}

void Judge::DecideByAgreement(const std::string& agreement) {
  if (different_checksum_.empty()) {
    Decide(v1::PASS, WithRemarks(agreement));
    return;
  }
  // The statistics of reordered elements agree, too.
  Decide(v1::SKIPPED,
         WithRemarks(fmt::format("{}, but the checksums differ: {}", agreement,
                                 different_checksum_)));
}

void Put(std::string_view name, double value, std::string& out) {
  const bool is_finite = std::isfinite(value);
  out += fmt::format("{}\"{}\": {}{}{}", out.size() > 1 ? ", " : "", name,
                     is_finite ? "" : "\"",
                     std::isnan(value) ? std::abs(value) : value,
                     is_finite ? "" : "\"");
}

}  // namespace

std::string StatisticsText(const Summary& summary) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const bool has_nan = summary.nan_count > 0;
  const bool has_positive = summary.positive_infinity_count > 0;
  const bool has_negative = summary.negative_infinity_count > 0;
  std::string out = "{";
  if (summary.count > 0) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double mean = summary.mean();
    if (has_positive || has_negative) {
      mean = has_positive && has_negative ? kNan
             : has_positive               ? kInfinity
                                          : -kInfinity;
    }
    const bool is_infinite = has_positive || has_negative;
    Put("max", has_nan ? kNan : summary.max, out);
    Put("min", has_nan ? kNan : summary.min, out);
    Put("mean", has_nan ? kNan : mean, out);
    Put("l2_norm",
        has_nan       ? kNan
        : is_infinite ? kInfinity
                      : summary.l2_norm(),
        out);
  }
  const auto put_count = [&out](std::string_view name, uint64_t count) {
    out += fmt::format("{}\"{}\": {}", out.size() > 1 ? ", " : "", name, count);
  };
  put_count("count", summary.count);
  put_count("nan_count", summary.nan_count);
  put_count("pos_inf_count", summary.positive_infinity_count);
  put_count("neg_inf_count", summary.negative_infinity_count);
  return out + "}";
}

RowMetrics Worst(const RowMetrics& a, const RowMetrics& b) {
  const std::span<const compute::MetricInfo> table = compute::MetricTable();
  RowMetrics out = a;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!b[i].has_value()) continue;
    const double before = a[i].value_or(*b[i]);
    out[i] = table[i].higher_is_better ? std::min(before, *b[i])
                                       : std::max(before, *b[i]);
  }
  return out;
}

StatisticsOutcome JudgeStatistics(const LogicalTensor& target,
                                  const LogicalTensor& golden,
                                  const Policy& policy, const Basis& basis) {
  return Judge(target, golden, policy, basis).Run();
}

}  // namespace msitd::compare
