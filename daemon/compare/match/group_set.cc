// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_set.h"

#include <algorithm>
#include <functional>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Run = TokenRuns::Run;

// Returns the run that could contain `token`, or the end if there is none.
std::vector<Run>::const_iterator RunOf(const std::vector<Run>& runs,
                                       int64_t token) {
  const auto behind = std::upper_bound(
      runs.begin(), runs.end(), token,
      [](int64_t value, const Run& run) { return value < run.first; });
  return behind == runs.begin() ? runs.end() : behind - 1;
}

// Returns the union of the lists.
TokenRuns Merge(const std::vector<TokenRuns>& lists) {
  using Head = std::pair<int64_t, size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  std::vector<TokenCursor> cursors;
  cursors.reserve(lists.size());
  const auto push = [&](size_t i) {
    if (const auto token = cursors[i].Next()) heads.emplace(*token, i);
  };
  for (size_t i = 0; i < lists.size(); ++i) {
    cursors.emplace_back(lists[i]);
    push(i);
  }
  TokenRuns out;
  std::optional<int64_t> last;
  while (!heads.empty()) {
    const auto [token, i] = heads.top();
    heads.pop();
    push(i);
    if (token != last) out.Append(token);
    last = token;
  }
  return out;
}

}  // namespace

void TokenRuns::Append(int64_t token) {
  ++count_;
  if (!runs_.empty()) {
    Run& run = runs_.back();
    MSITD_CHECK(token > run.last);
    if (run.step == 0) run.step = token - run.last;
    if (token - run.last == run.step) {
      run.last = token;
      return;
    }
  }
  runs_.push_back({token, token, 0});
}

void TokenRuns::Insert(int64_t token) {
  if (runs_.empty() || token > runs_.back().last) return Append(token);
  if (Has(token)) return;
  TokenRuns out;
  TokenCursor cursor(*this);
  bool is_done = false;
  while (const auto next = cursor.Next()) {
    if (!is_done && *next > token) {
      out.Append(token);
      is_done = true;
    }
    out.Append(*next);
  }
  *this = std::move(out);
}

bool TokenRuns::Has(int64_t token) const {
  const auto run = RunOf(runs_, token);
  if (run == runs_.end() || token > run->last) return false;
  return token == run->first || (token - run->first) % run->step == 0;
}

std::optional<int64_t> TokenCursor::Next() {
  if (run_ == runs_->size()) return std::nullopt;
  const Run* run = &(*runs_)[run_];
  if (is_inside_ && token_ == run->last) {
    is_inside_ = false;
    if (++run_ == runs_->size()) return std::nullopt;
    ++run;
  }
  token_ = is_inside_ ? token_ + run->step : run->first;
  is_inside_ = true;
  return token_;
}

void GroupSet::Insert(const GroupKey& key) {
  TokenRuns& tokens = ranks_[key.rank];
  const size_t before = tokens.count();
  tokens.Insert(key.token);
  count_ += tokens.count() - before;
}

void GroupSet::Add(int32_t rank, TokenRuns tokens) {
  if (tokens.empty()) return;
  count_ += tokens.count();
  MSITD_CHECK(ranks_.emplace(rank, std::move(tokens)).second);
}

bool GroupSet::Has(const GroupKey& key) const {
  const auto found = ranks_.find(key.rank);
  return found != ranks_.end() && found->second.Has(key.token);
}

size_t GroupSet::run_count() const {
  size_t out = 0;
  for (const auto& [rank, tokens] : ranks_) out += tokens.runs().size();
  return out;
}

GroupCursor::GroupCursor(const GroupSet& groups) {
  cursors_.reserve(groups.ranks().size());
  for (const auto& [rank, tokens] : groups.ranks()) {
    cursors_.emplace_back(tokens);
    Push(rank, cursors_.size() - 1);
  }
}

void GroupCursor::Push(int32_t rank, size_t cursor) {
  if (const auto token = cursors_[cursor].Next()) {
    heads_.push({{*token, rank}, cursor});
  }
}

std::optional<GroupKey> GroupCursor::Next() {
  if (heads_.empty()) return std::nullopt;
  const Head head = heads_.top();
  heads_.pop();
  Push(head.key.rank, head.cursor);
  return head.key;
}

absl::Status GroupCollector::Add(int32_t rank, const TokenRuns& tokens) {
  std::vector<TokenRuns>& lists = lists_[rank];
  // The ranks of a mesh usually have the same tokens.
  if (tokens.empty() ||
      std::find(lists.begin(), lists.end(), tokens) != lists.end()) {
    return absl::OkStatus();
  }
  lists.push_back(tokens);
  run_count_ += tokens.runs().size();
  return run_count_ > 2 * kGroupRunsMax ? Compact() : absl::OkStatus();
}

absl::Status GroupCollector::Compact() {
  run_count_ = 0;
  for (auto& [rank, lists] : lists_) {
    if (lists.size() > 1) lists = {Merge(lists)};
    for (const TokenRuns& tokens : lists) run_count_ += tokens.runs().size();
  }
  if (run_count_ <= kGroupRunsMax) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "the tokens of the ranks to compare make more than {} runs "
                    "of evenly spaced ones; narrow the filter by rank or token",
                    kGroupRunsMax);
}

absl::StatusOr<GroupSet> GroupCollector::Finish() && {
  MSITD_RETURN_IF_ERROR(Compact());
  GroupSet out;
  for (auto& [rank, lists] : lists_) {
    if (!lists.empty()) out.Add(rank, std::move(lists.front()));
  }
  return out;
}

}  // namespace msitd::compare
