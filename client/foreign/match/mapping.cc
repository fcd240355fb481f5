// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/mapping.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "client/foreign/match/limits.h"
#include "msitd/v1/mapping.pb.h"
#include "protos/base/limits.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

void Fill(const Reference& reference, v1::TensorReference& out) {
  out.set_op(reference.op);
  if (reference.io != Io::kUnspecified) {
    out.set_io(std::string(IoName(reference.io)));
    out.mutable_index()->set_string_value(reference.index);
  }
  if (reference.call.has_value()) out.set_call(*reference.call);
}

// Truncates a text between two characters of UTF-8.
std::string_view CutTo(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

bool IsName(std::string_view op) {
  return !op.empty() && op.size() <= kOpBytesMax && IsValidUtf8(op) &&
         op.find('\0') == std::string_view::npos;
}

}  // namespace

std::string RecordsText(size_t tensor_count, size_t record_count) {
  return record_count == tensor_count
             ? ""
             : fmt::format(" ({} records)", record_count);
}

std::string ToText(const Line& line) {
  v1::MappingLine message;
  if (line.target.has_value()) Fill(*line.target, *message.mutable_target());
  if (line.golden.has_value()) Fill(*line.golden, *message.mutable_golden());
  std::string reason(CutTo(line.reason, kMappingReasonBytesMax));
  // It may contain names of a graph, which are not validated.
  if (!IsValidUtf8(reason)) {
    std::replace_if(
        reason.begin(), reason.end(),
        [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  message.set_reason(std::move(reason));
  message.set_target_view(line.target_view);
  message.set_golden_view(line.golden_view);
  std::string out;
  // Fails only for text that is not UTF-8, which does not occur here.
  (void)google::protobuf::util::MessageToJsonString(message, &out);
  return out + "\n";
}

MappingBuilder::MappingBuilder(const RunFacts& golden, const RunFacts& target)
    : golden_(golden), target_(target) {
  for (const OpFacts& op : golden.ops) {
    golden_states_.emplace_back(op.tensors.size());
  }
  for (const OpFacts& op : target.ops) {
    target_states_.emplace_back(op.tensors.size());
  }
}

uint32_t MappingBuilder::NumberOf(std::string_view reason,
                                  std::string_view detail) {
  const auto [found, is_new] = reason_numbers_.emplace(
      std::pair(std::string(reason), std::string(detail)),
      static_cast<uint32_t>(reasons_.size()));
  if (is_new) reasons_.push_back({std::string(reason), std::string(detail)});
  return found->second;
}

bool MappingBuilder::Pair(Slot golden, Slot target, std::string_view reason,
                          Calls calls) {
  State& state = target_states_[target.op][target.tensor];
  if (IsTargetTaken(target)) return false;
  state.kind = State::Kind::kPaired;
  state.reason = NumberOf(reason, "");
  state.golden = golden;
  state.calls = calls;
  golden_states_[golden.op][golden.tensor].kind = State::Kind::kPaired;
  if (!state.has_calls) ++mapping_.pair_count;
  return true;
}

bool MappingBuilder::PairViews(Slot golden, Slot target,
                               std::string_view reason, Views views) {
  State& state = target_states_[target.op][target.tensor];
  if (IsTargetTaken(target) && state.kind != State::Kind::kViewed) return false;
  state.kind = State::Kind::kViewed;
  view_pairs_[{target.op, target.tensor}].push_back(
      {golden, NumberOf(reason, ""), std::move(views)});
  golden_states_[golden.op][golden.tensor].kind = State::Kind::kPaired;
  ++mapping_.pair_count;
  return true;
}

void MappingBuilder::PairWithAbsent(Slot target, Reference golden,
                                    std::string_view reason) {
  if (IsTargetTaken(target) || !IsName(golden.op)) return;
  State& state = target_states_[target.op][target.tensor];
  state.kind = State::Kind::kAbsent;
  state.reason = NumberOf(reason, golden.op);
  absent_.emplace(std::pair(target.op, target.tensor), std::move(golden));
}

bool MappingBuilder::PairCall(Slot golden, int32_t golden_call, Slot target,
                              int32_t target_call, std::string_view reason) {
  Reference reference = ToReference(golden_, golden);
  reference.call = golden_call;
  if (!PairCallWithAbsent(std::move(reference), target, target_call, reason)) {
    return false;
  }
  call_pairs_[{target.op, target_call}][target.tensor].golden = golden;
  golden_states_[golden.op][golden.tensor].kind = State::Kind::kPaired;
  State& state = target_states_[target.op][target.tensor];
  if (!state.has_calls && state.kind != State::Kind::kPaired) {
    ++mapping_.pair_count;
  }
  state.has_calls = true;
  return true;
}

bool MappingBuilder::PairCallWithAbsent(Reference golden, Slot target,
                                        int32_t target_call,
                                        std::string_view reason) {
  if (!IsName(golden.op)) return false;
  return call_pairs_[{target.op, target_call}]
      .emplace(target.tensor, CallPair{.golden = {},
                                       .golden_reference = std::move(golden),
                                       .reason = NumberOf(reason, "")})
      .second;
}

void MappingBuilder::Leave(State& state, const LeftReason& reason,
                           std::string_view detail) {
  if (state.kind != State::Kind::kOpen) return;
  state.kind = reason.is_expected ? State::Kind::kLeft : State::Kind::kMissing;
  state.reason = NumberOf(reason.text, detail);
}

void MappingBuilder::LeaveGolden(Slot golden, const LeftReason& reason,
                                 std::string_view detail) {
  Leave(golden_states_[golden.op][golden.tensor], reason, detail);
}

void MappingBuilder::LeaveTarget(Slot target, const LeftReason& reason,
                                 std::string_view detail) {
  Leave(target_states_[target.op][target.tensor], reason, detail);
}

void MappingBuilder::LeaveGoldenOp(size_t op, const LeftReason& reason,
                                   std::string_view detail) {
  for (State& state : golden_states_[op]) Leave(state, reason, detail);
}

void MappingBuilder::LeaveTargetOp(size_t op, const LeftReason& reason,
                                   std::string_view detail) {
  for (State& state : target_states_[op]) Leave(state, reason, detail);
}

bool MappingBuilder::IsTargetTaken(Slot target) const {
  const State::Kind kind = target_states_[target.op][target.tensor].kind;
  return kind == State::Kind::kPaired || kind == State::Kind::kViewed ||
         kind == State::Kind::kAbsent;
}

bool MappingBuilder::IsGoldenTaken(Slot golden) const {
  return golden_states_[golden.op][golden.tensor].kind == State::Kind::kPaired;
}

void MappingBuilder::Note(std::string text) {
  mapping_.notes.push_back(std::move(text));
}

std::string MappingBuilder::TextOf(uint32_t reason) const {
  const Reason& of = reasons_[reason];
  return of.detail.empty() ? of.text
                           : fmt::format("{}: {}", of.text, of.detail);
}

void MappingBuilder::Count(const RunFacts& run, bool is_golden,
                           const LeftReason& reason, States& states) {
  std::map<std::pair<std::string, bool>, size_t> places;
  for (size_t op = 0; op < states.size(); ++op) {
    for (size_t tensor = 0; tensor < states[op].size(); ++tensor) {
      State& state = states[op][tensor];
      Leave(state, reason, "");
      if (state.kind == State::Kind::kPaired ||
          state.kind == State::Kind::kViewed || state.has_calls) {
        continue;
      }
      const bool is_expected = state.kind == State::Kind::kLeft;
      const std::string& text = reasons_[state.reason].text;
      const auto [found, is_new] =
          places.emplace(std::pair(text, is_expected), mapping_.left.size());
      if (is_new) {
        mapping_.left.push_back({.is_golden = is_golden,
                                 .is_expected = is_expected,
                                 .reason = text,
                                 .examples = {}});
      }
      LeftTensors& left = mapping_.left[found->second];
      ++left.count;
      left.record_count += run.ops[op].tensors[tensor].record_count;
      const bool is_known =
          !left.examples.empty() && left.examples.back() == run.ops[op].op;
      if (!is_known && left.examples.size() < kExamplesMax) {
        left.examples.push_back(run.ops[op].op);
      }
    }
  }
}

Reference MappingBuilder::ToReference(const RunFacts& run, Slot slot) {
  const OpFacts& op = run.ops[slot.op];
  const TensorFacts& tensor = op.tensors[slot.tensor];
  return {.op = op.op, .io = tensor.io, .index = tensor.index};
}

bool MappingBuilder::IsWholePair(size_t op) const {
  const std::vector<State>& states = target_states_[op];
  if (states.empty()) return false;
  const State& first = states.front();
  if (first.kind != State::Kind::kPaired) return false;
  const OpFacts& target = target_.ops[op];
  const OpFacts& golden = golden_.ops[first.golden.op];
  if (golden.tensors.size() != target.tensors.size()) return false;
  for (size_t i = 0; i < states.size(); ++i) {
    const State& state = states[i];
    const bool is_like_first = state.kind == State::Kind::kPaired &&
                               state.golden.op == first.golden.op &&
                               state.reason == first.reason &&
                               !state.calls.golden && !state.calls.target;
    if (!is_like_first) return false;
    const TensorFacts& other = golden.tensors[state.golden.tensor];
    if (other.io != target.tensors[i].io ||
        other.index != target.tensors[i].index) {
      return false;
    }
  }
  return true;
}

bool MappingBuilder::IsWholeLeft(const std::vector<State>& states) {
  return !states.empty() &&
         std::all_of(states.begin(), states.end(), [&](const State& state) {
           return state.kind == State::Kind::kLeft &&
                  state.reason == states.front().reason;
         });
}

void MappingBuilder::AddTarget(size_t op) {
  const std::vector<State>& states = target_states_[op];
  const std::string& name = target_.ops[op].op;
  if (IsWholePair(op)) {
    const State& first = states.front();
    mapping_.lines.push_back({Reference{name},
                              Reference{golden_.ops[first.golden.op].op},
                              TextOf(first.reason), states.size()});
    return;
  }
  if (IsWholeLeft(states)) {
    mapping_.lines.push_back(
        {Reference{name}, std::nullopt, TextOf(states.front().reason)});
    return;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const State& state = states[i];
    if (state.kind == State::Kind::kMissing) continue;
    if (state.kind == State::Kind::kViewed) {
      AddViews(op, i);
      continue;
    }
    Line line;
    line.target = ToReference(target_, {op, i});
    line.reason = TextOf(state.reason);
    if (state.kind == State::Kind::kPaired) {
      line.target->call = state.calls.target;
      line.golden = ToReference(golden_, state.golden);
      line.golden->call = state.calls.golden;
      line.pair_count = 1;
    } else if (state.kind == State::Kind::kAbsent) {
      line.golden = absent_.at({op, i});
    }
    mapping_.lines.push_back(std::move(line));
  }
}

void MappingBuilder::AddViews(size_t op, size_t tensor) {
  for (const ViewPair& pair : view_pairs_.at({op, tensor})) {
    mapping_.lines.push_back({.target = ToReference(target_, {op, tensor}),
                              .golden = ToReference(golden_, pair.golden),
                              .reason = TextOf(pair.reason),
                              .pair_count = 1,
                              .target_view = pair.views.target,
                              .golden_view = pair.views.golden});
  }
}

bool MappingBuilder::IsWholeCall(size_t op, const CallPairs& pairs) const {
  const std::vector<TensorFacts>& targets = target_.ops[op].tensors;
  const CallPair& first = pairs.begin()->second;
  if (pairs.size() != targets.size() || !first.golden.has_value()) return false;
  const std::vector<TensorFacts>& goldens =
      golden_.ops[first.golden->op].tensors;
  return goldens.size() == targets.size() &&
         std::all_of(pairs.begin(), pairs.end(), [&](const auto& entry) {
           const CallPair& pair = entry.second;
           const Reference& golden = pair.golden_reference;
           const TensorFacts& target = targets[entry.first];
           return pair.golden.has_value() &&
                  pair.golden->op == first.golden->op &&
                  golden.call == first.golden_reference.call &&
                  golden.io == target.io && golden.index == target.index &&
                  pair.reason == first.reason;
         });
}

void MappingBuilder::AddCalls(size_t op) {
  for (auto at = call_pairs_.lower_bound({op, 0});
       at != call_pairs_.end() && at->first.first == op; ++at) {
    const int32_t call = at->first.second;
    const CallPairs& pairs = at->second;
    if (IsWholeCall(op, pairs)) {
      const CallPair& first = pairs.begin()->second;
      mapping_.lines.push_back(
          {Reference{.op = target_.ops[op].op, .call = call},
           Reference{.op = first.golden_reference.op,
                     .call = first.golden_reference.call},
           TextOf(first.reason), pairs.size()});
      continue;
    }
    for (const auto& [tensor, pair] : pairs) {
      Line line;
      line.target = ToReference(target_, {op, tensor});
      line.target->call = call;
      line.golden = pair.golden_reference;
      line.reason = TextOf(pair.reason);
      line.pair_count = pair.golden.has_value() ? 1 : 0;
      mapping_.lines.push_back(std::move(line));
    }
  }
}

void MappingBuilder::AddGolden(size_t op) {
  const std::vector<State>& states = golden_states_[op];
  if (IsWholeLeft(states)) {
    mapping_.lines.push_back({std::nullopt, Reference{golden_.ops[op].op},
                              TextOf(states.front().reason)});
    return;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].kind != State::Kind::kLeft) continue;
    mapping_.lines.push_back({std::nullopt, ToReference(golden_, {op, i}),
                              TextOf(states[i].reason)});
  }
}

absl::StatusOr<Mapping> MappingBuilder::Finish(
    const LeftReason& golden_reason, const LeftReason& target_reason) {
  Count(target_, /*is_golden=*/false, target_reason, target_states_);
  Count(golden_, /*is_golden=*/true, golden_reason, golden_states_);
  for (size_t i = 0; i < target_.ops.size(); ++i) {
    AddTarget(i);
    AddCalls(i);
  }
  for (size_t i = 0; i < golden_.ops.size(); ++i) AddGolden(i);
  if (mapping_.lines.size() > kMappingPairsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "the mapping has {} lines, more than {}",
                      mapping_.lines.size(), kMappingPairsMax);
  }
  return std::move(mapping_);
}

}  // namespace msitd::match
