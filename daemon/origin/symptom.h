// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/origin/module_facts.h"
#include "daemon/origin/padding_rows.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// The condition whose origin is searched.
struct Condition {
  // Returns whether a tensor satisfies the condition, by its summary or its
  // statistics. nullopt if the statistics do not show it. Not used for
  // statistics if `is_not_finite`.
  std::function<std::optional<bool>(const storage::TensorInfo&)> holds;
  // True for the condition on NaN and infinities. Only then, tensors can be
  // ignored.
  bool is_not_finite = false;
  // True if no tensor is to be ignored.
  bool is_strict = false;
};

// Why a tensor is ignored although it satisfies the condition. The rules up to
// kMaskModule are for tensors whose elements are finite or -Inf.
enum class IgnoreRule : uint8_t {
  kMaskInput,   // Not the result of a recorded op: an attention mask.
  kMaskOp,      // The result of an op that writes masks.
  kPassedOn,    // The result of an op that received -Inf.
  kLogOfZero,   // The logarithm of a zero.
  kMaskModule,  // The result of a module with code of its own.
  kUnwritten,   // Memory that was not written.
  kPadding,     // Rows of a batch that belong to no request, in inputs and in
                // results of calls that received such rows.
  kAbsorbed,    // An input that does not reach the results of its call.
};
inline constexpr size_t kIgnoreRuleCount = 8;

// Returns a text for users, such as `-inf only, written by a mask op`.
std::string_view TextOf(IgnoreRule rule);

enum class State : uint8_t { kClean, kSymptom, kIgnored, kUnknown };

struct Verdict {
  State state = State::kClean;
  IgnoreRule rule = IgnoreRule::kMaskInput;  // If kIgnored.
};

// The results of a call, which show whether its bad inputs matter. A cache with
// unused slots, for example, is an input with NaN that no result depends on.
class CallResults {
 public:
  // Adds a tensor of the call.
  void Add(const storage::TensorInfo& tensor, State state);

  // Returns whether inputs of the call are absorbed: it returned tensors of
  // floating-point numbers, and none of its results is bad or unknown. A Python
  // number proves nothing: it can be a constant.
  bool AbsorbInputs() const { return has_clean_ && !has_other_; }

 private:
  bool has_clean_ = false;
  bool has_other_ = false;
};

// Judges the tensors of a run in primary order, in which the inputs of a call
// directly precede its outputs. Thread-compatible.
class SymptomJudge {
 public:
  // All arguments must outlive this object.
  SymptomJudge(const Condition& condition, ModuleTrees& trees,
               PaddingRows& padding)
      : condition_(condition), trees_(trees), padding_(padding) {}

  // Returns whether records of `kind` are judged: tensors and statistics, and
  // numbers if the condition is on NaN and infinities. Other conditions are on
  // tensors only, because an argument such as a size would satisfy many of
  // them.
  bool Judges(RecordKind kind) const {
    return kind == RecordKind::kTensor || kind == RecordKind::kStatistics ||
           (kind == RecordKind::kNumber && condition_.is_not_finite);
  }

  // `knows_padding`: false to save the lookup of requests. Padding then counts
  // as a symptom.
  //
  // Errors: those of the reader; that of `stop`.
  absl::StatusOr<Verdict> Judge(const storage::TensorInfo& tensor,
                                bool knows_padding, storage::StopCheck stop);

  // Returns whether inputs without effect are ignored.
  bool ignores_absorbed() const {
    return condition_.is_not_finite && !condition_.is_strict;
  }

 private:
  void StartCall(const storage::TensorInfo& tensor);
  Verdict JudgePadding(const storage::TensorInfo& tensor);
  absl::StatusOr<std::optional<IgnoreRule>> RuleFor(
      const storage::TensorInfo& tensor, const Summary& summary,
      bool knows_padding, storage::StopCheck stop);
  absl::StatusOr<std::optional<IgnoreRule>> MaskRuleFor(
      const storage::TensorInfo& tensor, storage::StopCheck stop);

  const Condition& condition_;
  ModuleTrees& trees_;
  PaddingRows& padding_;
  // The call of the last tensor.
  int32_t rank_ = -1;
  int64_t token_ = -1;
  int32_t call_ = -1;
  std::string op_;
  bool received_minus_infinity_ = false;
  bool received_zero_ = false;
  bool received_padding_ = false;
};

}  // namespace msitd::origin
