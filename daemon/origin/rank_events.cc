// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/rank_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "protos/status/status.h"

namespace msitd::origin {

int32_t NameNumbers::Of(std::string_view name) {
  // Records of a call are adjacent, so the last name is often the next one.
  if (last_ >= 0 && name == last_name_) return last_;
  const auto [found, is_new] = numbers_.try_emplace(
      std::string(name), static_cast<int32_t>(names_.size()));
  if (is_new) names_.push_back(&found->first);
  last_name_ = name;
  last_ = found->second;
  return last_;
}

void RankEvents::Add(const storage::TensorInfo& record,
                     const Verdict& verdict) {
  const TensorKey& key = record.key;
  Event& event = events_.emplace_back();
  event.sequence = record.sequence;
  event.hash = record.kind == RecordKind::kTensor ? record.hash.low : 0;
  event.op = names_.Of(key.op);
  event.index = names_.Of(key.index);
  event.device = names_.Of(key.device);
  event.call_number = key.call;
  event.io = key.io;
  event.kind = record.kind;
  event.state = verdict.state;
  event.rule = verdict.rule;
  event.requires_grad = record.requires_grad.value_or(false);
  has_statistics_ = has_statistics_ || record.kind == RecordKind::kStatistics;
}

void RankEvents::EndCall(size_t begin, size_t end, const CallResults& results) {
  if (!results.AbsorbInputs()) return;
  for (size_t i = begin; i < end; ++i) {
    events_[i].may_be_absorbed =
        events_[i].io == Io::kInput && events_[i].state == State::kSymptom;
  }
}

// A bad input is absorbed only if nothing inside the call is bad either.
void RankEvents::IgnoreAbsorbed() {
  // The number of other symptoms before each event.
  std::vector<int32_t> before(events_.size() + 1);
  for (size_t i = 0; i < events_.size(); ++i) {
    before[i + 1] = before[i];
    if (events_[i].state == State::kSymptom && !events_[i].may_be_absorbed) {
      ++before[i + 1];
    }
  }
  for (Event& event : events_) {
    if (!event.may_be_absorbed) continue;
    const CallNesting::Call& call = nesting_.calls()[event.call];
    if (before[call.last + 1] != before[call.first]) continue;
    event.state = State::kIgnored;
    event.rule = IgnoreRule::kAbsorbed;
  }
}

absl::Status RankEvents::Nest(storage::StopCheck stop) {
  std::stable_sort(
      events_.begin(), events_.end(),
      [](const Event& a, const Event& b) { return a.sequence < b.sequence; });
  for (size_t i = 0; i < events_.size(); ++i) {
    Event& event = events_[i];
    event.call =
        nesting_.Add(names_.Name(event.op), event.call_number, event.io);
    has_equal_sequences_ = has_equal_sequences_ ||
                           (i > 0 && events_[i - 1].sequence == event.sequence);
  }
  absl::Status stopped;
  nesting_.FindParents([&stopped, stop] {
    stopped = stop();
    return !stopped.ok();
  });
  MSITD_RETURN_IF_ERROR(stopped);
  IgnoreAbsorbed();
  return absl::OkStatus();
}

absl::StatusOr<RankEvents> RankEvents::Load(storage::RunReader& run,
                                            int32_t rank, int64_t token,
                                            SymptomJudge& judge,
                                            storage::StopCheck stop) {
  RankEvents out;
  out.rank_ = rank;
  out.token_ = token;
  Selector selector;
  selector.ranks = {rank};
  selector.tokens = {{token, token}};
  selector.kinds = EveryRecordKind();
  std::erase(selector.kinds, RecordKind::kDocument);
  MSITD_ASSIGN_OR_RETURN(const auto scan, run.Scan(selector, ""));
  storage::TensorInfo record;
  size_t begin = 0;
  CallResults results;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(record, stop));
    if (!found) break;
    if (out.events_.size() == kRankEventsMax) {
      out.is_too_large_ = true;
      break;
    }
    Verdict verdict;
    const bool is_judged = judge.Judges(record.kind);
    if (is_judged) {
      MSITD_ASSIGN_OR_RETURN(verdict,
                             judge.Judge(record, /*knows_padding=*/true, stop));
    }
    out.Add(record, verdict);
    if (!judge.ignores_absorbed()) continue;
    const Event& last = out.events_.back();
    const Event& first = out.events_[begin];
    if (last.op != first.op || last.call_number != first.call_number ||
        last.device != first.device) {
      out.EndCall(begin, out.events_.size() - 1, results);
      begin = out.events_.size() - 1;
      results = CallResults();
    }
    if (is_judged) results.Add(record, verdict.state);
  }
  out.EndCall(begin, out.events_.size(), results);
  out.incomplete_count_ = scan->incomplete_count();
  MSITD_RETURN_IF_ERROR(out.Nest(stop));
  return out;
}

TensorKey RankEvents::KeyOf(int32_t number, std::string_view run) const {
  const Event& event = events_[number];
  TensorKey key;
  key.run = std::string(run);
  key.rank = rank_;
  key.device = names_.Name(event.device);
  key.token = token_;
  key.op = names_.Name(event.op);
  key.call = event.call_number;
  key.io = event.io;
  key.index = names_.Name(event.index);
  return key;
}

std::string RankEvents::TextOf(int32_t number) const {
  return fmt::format("{} {}/{}", op_of(number), IoName(events_[number].io),
                     index_of(number));
}

int32_t RankEvents::FirstSymptom() const {
  const auto found = std::find_if(
      events_.begin(), events_.end(),
      [](const Event& event) { return event.state == State::kSymptom; });
  return found == events_.end() ? CallNesting::kNone
                                : static_cast<int32_t>(found - events_.begin());
}

}  // namespace msitd::origin
