// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/token_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/measure/element_reader.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Maximum number of token ids of an input that are read.
constexpr uint64_t kTokenIdsMax = uint64_t{1} << 20;

bool MayBeLogits(const LogicalTensor& tensor) {
  return tensor.key.io == Io::kOutput && IsFloatingPoint(tensor.dtype) &&
         tensor.kind == RecordKind::kTensor && tensor.has_bytes &&
         tensor.shape.size() >= 2 && ElementCount(tensor.shape) > 0;
}

absl::StatusOr<std::vector<double>> ReadRow(const LogicalTensor& tensor,
                                            uint64_t row, std::string_view side,
                                            storage::RunReader& run,
                                            WorkObserver& observer) {
  const auto width = static_cast<uint64_t>(tensor.shape.back());
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> elements,
                         ElementReader::Open(tensor, side, run, observer));
  std::vector<double> out;
  MSITD_RETURN_IF_ERROR(
      elements->Next(row * width, static_cast<std::vector<double>*>(nullptr)));
  MSITD_RETURN_IF_ERROR(elements->Next(width, &out));
  return out;
}

// Returns the row of logits by which the token at `element` of the inputs was
// chosen: the last position of its sequence. Returns nothing if the inputs do
// not end with this token, or the shapes do not belong together.
std::optional<uint64_t> RowOf(const std::vector<int64_t>& ids, uint64_t element,
                              const std::vector<int64_t>& logits) {
  if (ids.empty() || ids.size() > 2) return std::nullopt;
  const uint64_t columns = ids.size() == 2 ? static_cast<uint64_t>(ids[1]) : 1;
  if (element % columns != columns - 1) return std::nullopt;
  const uint64_t sequence = element / columns;
  if (logits.size() > 3 || logits.front() != ids.front()) return std::nullopt;
  const uint64_t positions =
      logits.size() == 3 ? static_cast<uint64_t>(logits[1]) : 1;
  return sequence * positions + positions - 1;
}

// Returns the row of logits of the positions of one request by which the first
// of the next positions was chosen. Others belong to a prompt.
std::optional<uint64_t> LastRowOf(uint64_t element,
                                  const std::vector<int64_t>& logits) {
  if (element != 0 || logits.size() != 2) return std::nullopt;
  return static_cast<uint64_t>(logits.front()) - 1;
}

// Returns the Kullback-Leibler divergence of the distribution of `target` from
// that of `golden`, in nats.
double DivergenceOf(const std::vector<double>& golden,
                    const std::vector<double>& target) {
  const auto log_sum = [](const std::vector<double>& logits) {
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double value : logits) sum += std::exp(value - top);
    return top + std::log(sum);
  };
  const double golden_sum = log_sum(golden);
  const double target_sum = log_sum(target);
  double out = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const double log_p = golden[i] - golden_sum;
    if (std::isfinite(log_p)) {
      out += std::exp(log_p) * (log_p - (target[i] - target_sum));
    }
  }
  return std::max(out, 0.0);
}

// A token that a run received, with the logits that may have chosen it.
struct Choice {
  std::string_view side;
  const std::vector<double>& logits;
  size_t own = 0;
  size_t other = 0;  // The token of the other run.

  bool is_largest() const {
    return logits[own] >= *std::max_element(logits.begin(), logits.end());
  }

  std::string Text() const {
    if (!is_largest()) {
      return fmt::format("{} chose {}, which is not its largest logit", side,
                         own);
    }
    return fmt::format("{} chose {} over {} by {:.3g}", side, own, other,
                       logits[own] - logits[other]);
  }
};

}  // namespace

void TokenChoices::Note(const TensorPair& pair, const v1::ComparisonRow& row) {
  if (pair.golden == nullptr || pair.target == nullptr ||
      !MayBeLogits(*pair.golden) || !MayBeLogits(*pair.target) ||
      pair.golden->shape != pair.target->shape) {
    return;
  }
  // The outermost of several results that are equally wide is the last one.
  if (widest_.golden != nullptr &&
      widest_.golden->shape.back() > pair.golden->shape.back()) {
    return;
  }
  widest_ = {pair.golden, pair.target, row.verdict() == v1::PASS};
}

void TokenChoices::EndGroup(const TensorGroup& group) {
  const Widest widest = std::exchange(widest_, {});
  if (widest.golden == nullptr) return;
  const std::pair key(group.rank, group.request);
  if (sequences_.size() == kSequencesMax && !sequences_.contains(key)) {
    sequences_.erase(sequences_.begin());
  }
  Logits& last = sequences_[key];
  // A token may have several groups.
  if (last.token == group.token &&
      last.golden.shape.back() > widest.golden->shape.back()) {
    return;
  }
  last = {group.token, Detached(*widest.golden), Detached(*widest.target),
          widest.agree};
}

absl::StatusOr<std::string> TokenChoices::Explain(
    const TensorPair& tokens, const v1::ComparisonRow& row,
    const PairRuns& runs, WorkObserver& observer) const {
  const auto found = sequences_.find({row.rank(), row.request()});
  if (found == sequences_.end() || found->second.token >= row.token())
    return "";
  const Logits& logits = found->second;
  const std::vector<int64_t>& shape = tokens.golden->shape;
  if (shape != tokens.target->shape || ElementCount(shape) > kTokenIdsMax ||
      logits.golden.tensor_bytes + logits.target.tensor_bytes >
          kLogitsBytesMax ||
      static_cast<uint64_t>(logits.golden.shape.back()) > kScoresWidthMax) {
    return "";
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<int64_t> golden_ids,
                         ReadElements<std::vector<int64_t>>(
                             *tokens.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(const std::vector<int64_t> target_ids,
                         ReadElements<std::vector<int64_t>>(
                             *tokens.target, "target", runs.target, observer));
  const auto [golden_id, target_id] =
      std::mismatch(golden_ids.begin(), golden_ids.end(), target_ids.begin());
  if (golden_id == golden_ids.end()) return "";
  const auto element = static_cast<uint64_t>(golden_id - golden_ids.begin());
  const std::optional<uint64_t> place =
      row.request().empty() ? RowOf(shape, element, logits.golden.shape)
                            : LastRowOf(element, logits.golden.shape);
  const int64_t width = logits.golden.shape.back();
  if (!place.has_value() || *golden_id < 0 || *golden_id >= width ||
      *target_id < 0 || *target_id >= width) {
    return "";
  }
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<double> golden,
      ReadRow(logits.golden, *place, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<double> target,
      ReadRow(logits.target, *place, "target", runs.target, observer));
  const auto of_golden = static_cast<size_t>(*golden_id);
  const auto of_target = static_cast<size_t>(*target_id);
  const Choice by_golden{"golden", golden, of_golden, of_target};
  const Choice by_target{"target", target, of_target, of_golden};
  // Such tokens were given to the model, as the next prompt or in training.
  if (!by_golden.is_largest() && !by_target.is_largest()) return "";
  const std::string_view verdict =
      !logits.agree ? "differ already"
      : by_golden.is_largest() && by_target.is_largest()
          ? "agree within the tolerance: a near tie"
          : "agree within the tolerance";
  return fmt::format("at token {}, {}, {}; their logits {} (KL {:.2g})",
                     logits.token, by_golden.Text(), by_target.Text(), verdict,
                     DivergenceOf(golden, target));
}

}  // namespace msitd::compare
