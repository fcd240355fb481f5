// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/rank_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "daemon/origin/ignored_sources.h"
#include "daemon/origin/missing_parts.h"
#include "daemon/origin/op_kinds.h"
#include "protos/status/status.h"

namespace msitd::origin {
namespace {

using Call = CallNesting::Call;
using Event = RankEvents::Event;
using Role = CallNesting::Role;

constexpr int32_t kNone = CallNesting::kNone;

// Results of float16 ops of which the finite elements are at least this large
// have overflowed.
constexpr double kFloat16Large = 1024;

bool IsOverflow(const storage::TensorInfo& tensor) {
  const Summary& summary = tensor.summary;
  const uint64_t finite = summary.finite_count();
  return tensor.dtype == DType::kFloat16 && summary.nan_count == 0 &&
         finite > 0 &&
         summary.l2_norm() >=
             kFloat16Large * std::sqrt(static_cast<double>(finite));
}

class Finder {
 public:
  Finder(const RankEvents& events, const RankContext& context,
         storage::StopCheck stop)
      : events_(events),
        context_(context),
        stop_(stop),
        first_(events.FirstSymptom()),
        call_(events.event(first_).call),
        explained_(FindExplained(events, context.tree, first_)) {}

  absl::StatusOr<RankOrigin> Find() {
    out_.event = first_;
    MSITD_ASSIGN_OR_RETURN(out_.tensor, context_.run.GetTensor(events_.KeyOf(
                                            first_, context_.run.name())));
    AddOrderGaps();
    switch (CallNesting::RoleOf(event().io)) {
      case Role::kInput:
        MSITD_RETURN_IF_ERROR(JudgeInput());
        break;
      case Role::kOutput:
        MSITD_RETURN_IF_ERROR(JudgeOutput());
        break;
      default:
        JudgeWeight();
    }
    out_.may_be_received = MayBeReceived();
    AddSent();
    return std::move(out_);
  }

 private:
  const Event& event() const { return events_.event(first_); }
  const Call& call(int32_t number) const {
    return events_.nesting().calls()[number];
  }
  std::string Op(int32_t number) const { return std::string(call(number).op); }
  void AddGap(std::string gap) { out_.gaps.push_back(std::move(gap)); }

  void AddOrderGaps();
  absl::Status JudgeInput();
  void JudgeEntry();
  absl::Status JudgeOutput();
  void JudgeWeight();
  bool IsParameterOf(int32_t scope);
  int32_t LastPartBefore(int32_t scope, int32_t event) const;
  bool HasParts(int32_t scope) const;
  void AddInputGaps(int32_t of);
  bool AddIgnoredGap(int32_t number);
  absl::Status AddScopeGaps(int32_t scope);
  absl::Status AddWeightGaps(int32_t of);
  void AddStateGaps(std::string_view op);
  void AddLossGaps(int32_t from);
  void AddNotRecordedGap(std::string_view op);
  void AddMaskNotes();
  int32_t MaskInput() const;
  void AddSent();
  bool IsTraining(const ModuleFacts* facts) const;
  bool MayBeReceived() const;

  const RankEvents& events_;
  const RankContext& context_;
  const storage::StopCheck stop_;
  const int32_t first_;
  const int32_t call_;
  // For each event before first_: not ignored, or ignored with a known source.
  const std::vector<bool> explained_;
  RankOrigin out_;
};

void Finder::AddOrderGaps() {
  if (events_.is_too_large()) {
    AddGap(fmt::format("token {} has more than {} records", events_.token(),
                       kRankEventsMax));
  }
  if (!context_.has_order) {
    AddGap("the run does not record the order of execution");
  } else if (events_.has_equal_sequences()) {
    AddGap(
        "several clients recorded this rank, so the order of their records is "
        "not known");
  }
}

int32_t Finder::LastPartBefore(int32_t scope, int32_t event) const {
  int32_t found = kNone;
  const std::vector<Call>& calls = events_.nesting().calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].parent != scope || calls[i].last >= event ||
        calls[i].first == kNone) {
      continue;
    }
    if (found == kNone || calls[i].last > call(found).last) {
      found = static_cast<int32_t>(i);
    }
  }
  return found;
}

bool Finder::HasParts(int32_t scope) const {
  const std::vector<Call>& calls = events_.nesting().calls();
  return std::any_of(calls.begin(), calls.end(), [scope](const Call& each) {
    return each.parent == scope;
  });
}

void Finder::JudgeWeight() {
  out_.op = events_.op_of(first_);
  if (event().io == Io::kWeight) {
    out_.kind = OriginKind::kWeight;
    return;
  }
  out_.kind = OriginKind::kState;
  const std::string& index = events_.index_of(first_);
  const size_t dot = index.rfind('.');
  if (dot == std::string::npos) return;
  // The state of an optimizer follows from the gradients of the parameter.
  const std::string_view parameter = std::string_view(index).substr(0, dot);
  const auto is_gradient = [&](int32_t i) {
    return events_.event(i).io == Io::kGradWeight &&
           events_.op_of(i) == out_.op && events_.index_of(i) == parameter;
  };
  for (int32_t i = 0; i < first_; ++i) {
    if (is_gradient(i)) return;
  }
  AddGap(fmt::format("the gradients of {} {} were not recorded", out_.op,
                     parameter));
}

bool Finder::IsParameterOf(int32_t scope) {
  if (event().io != Io::kInput || event().kind == RecordKind::kNumber ||
      !IsFunction(events_.op_of(first_))) {
    return false;
  }
  const ModuleFacts* const facts = context_.tree.Find(call(scope).op);
  if (facts == nullptr) return false;
  const std::vector<int64_t>& shape = out_.tensor.shape;
  for (const ModuleFacts::Parameter& parameter : facts->parameters) {
    if (parameter.shape != shape) continue;
    // The data is usually the first argument, and may have the same shape.
    if (events_.index_of(first_) == "0" && shape.size() > 1) continue;
    out_.notes.push_back(
        fmt::format("it has the shape of the parameter {}", parameter.name));
    return true;
  }
  return false;
}

void Finder::JudgeEntry() {
  out_.kind = OriginKind::kInput;
  out_.op = Op(call_);
  if (IsFunction(out_.op) || IsCollective(out_.op)) {
    if (context_.facts.FiltersOps(events_.token())) {
      AddGap("the capture policy excludes ops that may have made it");
    }
    for (int32_t i = 0; i < first_ && !AddIgnoredGap(i); ++i) {
    }
    AddLossGaps(0);
    return;
  }
  if (!IsModelCall(events_, context_.tree, call_)) {
    AddGap(fmt::format("the caller of {} was not recorded", out_.op));
  }
}

absl::Status Finder::JudgeInput() {
  const int32_t scope = call(call_).parent;
  const std::vector<Event>& all = events_.events();
  const bool has_tensors = std::any_of(
      all.begin(), all.end(),
      [](const Event& each) { return each.kind == RecordKind::kTensor; });
  if (events_.has_statistics() && has_tensors) {
    AddGap(
        "statistics that a device computed are recorded late, so the op that "
        "made it may be recorded after it");
  }
  if (scope == kNone) {
    JudgeEntry();
    return absl::OkStatus();
  }
  if (IsParameterOf(scope)) {
    out_.kind = OriginKind::kWeight;
    out_.op = Op(scope);
    if (events_.token() > 0 && event().requires_grad) {
      AddGap(fmt::format(
          "the optimizer may have changed the weights of {} before token {}",
          out_.op, events_.token()));
    }
    return absl::OkStatus();
  }
  out_.kind = OriginKind::kCode;
  out_.op = Op(scope);
  out_.before = Op(call_);
  const int32_t after = LastPartBefore(scope, first_);
  if (after != kNone) out_.after = Op(after);
  return AddScopeGaps(scope);
}

absl::Status Finder::JudgeOutput() {
  out_.op = Op(call_);
  if (HasParts(call_)) {
    out_.kind = OriginKind::kCode;
    const int32_t after = LastPartBefore(call_, first_);
    if (after != kNone) out_.after = Op(after);
    MSITD_RETURN_IF_ERROR(AddScopeGaps(call_));
  } else {
    out_.kind = OriginKind::kOp;
    AddInputGaps(call_);
    AddNotRecordedGap(out_.op);
    AddLossGaps(call(call_).first);
    AddStateGaps(out_.op);
    MSITD_RETURN_IF_ERROR(AddWeightGaps(call_));
  }
  AddMaskNotes();
  return absl::OkStatus();
}

// Adds a gap if an event is ignored without a known source. Returns whether it
// is.
bool Finder::AddIgnoredGap(int32_t number) {
  if (number >= first_ || explained_[number]) return false;
  switch (events_.event(number).rule) {
    case IgnoreRule::kPadding:
      AddGap(
          fmt::format("{} has NaN or infinities that may be in unused rows of "
                      "the batch, or the origin itself",
                      events_.TextOf(number)));
      break;
    case IgnoreRule::kUnwritten:
    case IgnoreRule::kAbsorbed:
      AddGap(fmt::format("{} has NaN or infinities that may be the origin: {}",
                         events_.TextOf(number),
                         TextOf(events_.event(number).rule)));
      break;
    default:
      AddGap(
          fmt::format("{} has -inf, which may be a mask or the origin itself",
                      events_.TextOf(number)));
  }
  return true;
}

void Finder::AddInputGaps(int32_t of) {
  bool has_any = false;
  const auto count = static_cast<int32_t>(events_.events().size());
  for (int32_t i = 0; i < count; ++i) {
    const Event& each = events_.event(i);
    if (each.call != of || CallNesting::RoleOf(each.io) != Role::kInput) {
      continue;
    }
    has_any = true;
    if (AddIgnoredGap(i)) return;
    if (each.state == State::kUnknown) {
      AddGap(fmt::format("{} could not be judged", events_.TextOf(i)));
      return;
    }
    // Only possible if records are late.
    if (each.state == State::kSymptom && i > first_) {
      AddGap(fmt::format("{} was recorded after {}", events_.TextOf(i),
                         events_.TextOf(first_)));
      return;
    }
  }
  if (!has_any) {
    AddGap(fmt::format("the {} of {} were not recorded",
                       call(of).is_backward ? "incoming gradients" : "inputs",
                       call(of).op));
  }
}

absl::Status Finder::AddScopeGaps(int32_t scope) {
  const std::string op = Op(scope);
  AddInputGaps(scope);
  if (context_.facts.FiltersOps(events_.token())) {
    AddGap(fmt::format("the capture policy excludes ops that {} may call", op));
  }
  MSITD_ASSIGN_OR_RETURN(const std::string missing,
                         FindMissingPart(events_, context_.run, context_.tree,
                                         context_.facts, op, stop_));
  if (!missing.empty()) {
    AddGap(fmt::format("{}, a part of {}, was not recorded", missing, op));
  }
  for (int32_t i = std::max(call(scope).first, 0); i < first_; ++i) {
    if (events_.event(i).state == State::kUnknown) {
      AddGap(fmt::format("{} could not be judged", events_.TextOf(i)));
      break;
    }
    if (events_.event(i).call != scope && AddIgnoredGap(i)) break;
  }
  AddNotRecordedGap(op);
  AddLossGaps(call(scope).first);
  AddStateGaps(op);
  return AddWeightGaps(scope);
}

void Finder::AddNotRecordedGap(std::string_view op) {
  const std::string reason = context_.facts.NotRecordedAt(op);
  if (reason.empty()) return;
  AddGap(fmt::format("not everything of {} was recorded: {}", op, reason));
}

void Finder::AddLossGaps(int32_t from) {
  if (!context_.facts.may_lack_records() && events_.incomplete_count() == 0) {
    return;
  }
  // The record before the first input may have been an input, too.
  for (int32_t i = std::max(from, 0); i <= first_; ++i) {
    const uint64_t expected =
        i > 0 ? events_.event(i - 1).sequence + 1
              : context_.sequence_before.value_or(uint64_t{0} - 1) + 1;
    if (events_.event(i).sequence <= expected) continue;
    if (i == 0) {
      AddGap(fmt::format("records before {} were lost", events_.TextOf(i)));
      return;
    }
    AddGap(fmt::format("records between {} and {} were lost",
                       events_.TextOf(i - 1), events_.TextOf(i)));
    return;
  }
}

void Finder::AddStateGaps(std::string_view op) {
  if (IsFunction(op) || IsCollective(op)) return;
  if (out_.kind == OriginKind::kOp && context_.tree.IsPlain(op)) return;
  if (!context_.earlier_doubt.empty()) {
    AddGap(fmt::format("{} may have kept the value from an earlier token: {}",
                       op, context_.earlier_doubt));
  }
  if (!context_.lacks_token_before) return;
  AddGap(fmt::format(
      "token {} was not recorded, and {} may have kept the value since then",
      events_.token() - 1, op));
}

// Returns whether an optimizer may run between tokens. `facts` are those of the
// module; null if it is not known.
bool Finder::IsTraining(const ModuleFacts* facts) const {
  if (event().requires_grad && (facts == nullptr || facts->is_training)) {
    return true;
  }
  const std::vector<Event>& all = events_.events();
  return std::any_of(all.begin(), all.end(), [](const Event& each) {
    return CallNesting::IsBackward(each.io);
  });
}

absl::Status Finder::AddWeightGaps(int32_t of) {
  const std::string op = Op(of);
  if (IsFunction(op) || IsCollective(op)) return absl::OkStatus();
  const ModuleFacts* const facts = context_.tree.Find(op);
  // The results of recorded parts show whether the weights of these are bad.
  const bool has_own = facts != nullptr && !facts->parameters.empty();
  const bool has_weights =
      facts == nullptr
          ? context_.tree.empty()
          : has_own || (!HasParts(of) && context_.tree.HasParameters(op));
  if (!has_weights || call(of).is_backward) return absl::OkStatus();
  if (events_.token() > 0 && IsTraining(facts)) {
    // A bad weight would not leave large finite numbers and infinities only.
    if (IsOverflow(out_.tensor)) return absl::OkStatus();
    AddGap(fmt::format(
        "{} made it, or the optimizer made its weights bad before token {}: "
        "they were not recorded",
        op, events_.token()));
    return absl::OkStatus();
  }
  Selector weights;
  weights.ranks = {events_.rank()};
  weights.op_patterns = {op};
  if (!has_own) weights.op_patterns.push_back(op + ".*");
  weights.ios = {Io::kWeight};
  MSITD_ASSIGN_OR_RETURN(const auto scan, context_.run.Scan(weights, ""));
  storage::TensorInfo weight;
  MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(weight, stop_));
  if (!found && facts != nullptr) {
    out_.notes.push_back(
        fmt::format("the weights and buffers of {} were not recorded, so one "
                    "of them may be bad",
                    op));
  }
  return absl::OkStatus();
}

// Returns an ignored input of the call; kNone if there is none.
int32_t Finder::MaskInput() const {
  const auto count = static_cast<int32_t>(events_.events().size());
  for (int32_t i = 0; i < count; ++i) {
    const Event& each = events_.event(i);
    if (each.call == call_ && each.state == State::kIgnored &&
        CallNesting::RoleOf(each.io) == Role::kInput) {
      return i;
    }
  }
  return kNone;
}

void Finder::AddMaskNotes() {
  const int32_t input = MaskInput();
  if (input == kNone) return;
  const ModuleFacts* const facts = context_.tree.Find(out_.op);
  const bool is_softmax = IsSoftmax(out_.op) ||
                          (facts != nullptr && IsSoftmax(facts->module_class));
  const Summary& summary = out_.tensor.summary;
  const std::vector<int64_t>& shape = out_.tensor.shape;
  if (is_softmax && !shape.empty() && shape.back() > 0 &&
      summary.nan_count % static_cast<uint64_t>(shape.back()) == 0) {
    out_.notes.push_back(
        fmt::format("rows that are fully masked: {}",
                    summary.nan_count / static_cast<uint64_t>(shape.back())));
    return;
  }
  out_.notes.push_back(fmt::format("{} has elements that are ignored by a rule",
                                   events_.TextOf(input)));
}

void Finder::AddSent() {
  const auto count = static_cast<int32_t>(events_.events().size());
  for (int32_t i = first_; i < count && out_.sent.size() < kSentHashesMax;
       ++i) {
    const Event& each = events_.event(i);
    const bool is_result = events_.call_of(i).parent == kNone &&
                           CallNesting::RoleOf(each.io) == Role::kOutput;
    if (each.state != State::kSymptom || each.hash == 0) continue;
    if (is_result || IsCollective(events_.op_of(i))) {
      out_.sent.push_back(each.hash);
    }
  }
  std::sort(out_.sent.begin(), out_.sent.end());
}

bool Finder::MayBeReceived() const {
  if (out_.kind == OriginKind::kWeight) return false;
  if (out_.kind != OriginKind::kOp) return true;
  // Functions of distributed tensors communicate.
  if (!out_.tensor.placement.empty()) return true;
  if (IsFunction(out_.op)) return false;
  return !context_.tree.IsPlain(out_.op);
}

}  // namespace

absl::StatusOr<RankOrigin> FindRankOrigin(const RankEvents& events,
                                          const RankContext& context,
                                          storage::StopCheck stop) {
  return Finder(events, context, stop).Find();
}

}  // namespace msitd::origin
