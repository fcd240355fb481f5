// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_groups.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

using storage::TensorInfo;
using storage::TensorSelector;
using storage::TokenRange;

// A scan that asks so often is worth a second thread: it takes some
// milliseconds.
constexpr int kQuestionsAlone = 8;

std::string KeyOf(const TensorKey& key, GroupBy group_by) {
  switch (group_by) {
    case GroupBy::kRank:
      return std::to_string(key.rank);
    case GroupBy::kToken:
      return std::to_string(key.token);
    case GroupBy::kOp:
      return key.op;
    case GroupBy::kDevice:
      return key.device;
    case GroupBy::kNone:
      break;
  }
  return {};
}

// Decimal numbers without leading zeros.
bool NumberLess(const Group& a, const Group& b) {
  return std::pair(a.key.size(), std::string_view(a.key)) <
         std::pair(b.key.size(), std::string_view(b.key));
}

// Groups in the order of their first appearance.
class GroupTable {
 public:
  absl::Status Add(Group added) {
    const auto [it, is_new] = index_of_.try_emplace(added.key, groups_.size());
    if (is_new) {
      if (groups_.size() == kGroupsMax) {
        return WithReason(
            MakeStatus(absl::StatusCode::kResourceExhausted,
                       "the tensors make more than {} groups", kGroupsMax),
            "FIELD_INVALID");
      }
      groups_.push_back(std::move(added));
      return absl::OkStatus();
    }
    Group& group = groups_[it->second];
    group.summary = group.tensor_count == 0
                        ? added.summary
                        : Merge(group.summary, added.summary);
    group.tensor_count += added.tensor_count;
    group.tensor_bytes += added.tensor_bytes;
    return absl::OkStatus();
  }

  std::vector<Group> Take() { return std::move(groups_); }

 private:
  std::vector<Group> groups_;
  std::unordered_map<std::string, size_t> index_of_;
};

absl::Status AddSelected(storage::ChunkStore& store, std::string_view run,
                         const TensorSelector& selector, GroupBy group_by,
                         StopCheck stop, GroupTable& groups) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         store.Scan(run, selector, ""));
  TensorInfo tensor;
  for (uint64_t scanned = 0;; ++scanned) {
    if (scanned % kStopCheckInterval == 0) MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(tensor));
    if (!found) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(groups.Add(
        {KeyOf(tensor.key, group_by), 1, tensor.tensor_bytes, tensor.summary}));
  }
}

// What of `selector` is below `token`, or from there on. Nothing of a selector
// that selects all tokens is empty.
TensorSelector TokensBelow(TensorSelector selector, int64_t token) {
  if (selector.tokens.empty()) selector.tokens = {{0, token - 1}};
  std::erase_if(selector.tokens, [token](TokenRange& range) {
    range.last = std::min(range.last, token - 1);
    return range.last < range.first;
  });
  return selector;
}

TensorSelector TokensFrom(TensorSelector selector, int64_t token) {
  if (selector.tokens.empty()) selector.tokens = {{token, kTokenMax}};
  std::erase_if(selector.tokens, [token](TokenRange& range) {
    range.first = std::max(range.first, token);
    return range.last < range.first;
  });
  return selector;
}

// Where the upper half of the tokens begins, of those that `selector` spans
// below `token_end`; nothing if they are fewer than two.
std::optional<int64_t> MiddleToken(const TensorSelector& selector,
                                   int64_t token_end) {
  int64_t first = selector.tokens.empty() ? 0 : kTokenMax;
  int64_t last = selector.tokens.empty() ? token_end - 1 : 0;
  for (const TokenRange& range : selector.tokens) {
    first = std::min(first, range.first);
    last = std::max(last, std::min(range.last, token_end - 1));
  }
  if (first >= last) return std::nullopt;
  return first + (last - first) / 2 + 1;
}

// The groups of the upper half of the tokens, made by a thread of their own if
// it is worth one.
class UpperHalf {
 public:
  // Borrows all but the selector.
  UpperHalf(storage::ChunkStore& store, std::string_view run,
            TensorSelector selector, GroupBy group_by, StopCheck stop)
      : store_(store),
        run_(run),
        selector_(std::move(selector)),
        group_by_(group_by),
        stop_(stop) {}

  // Ends the thread soon.
  ~UpperHalf() {
    if (!thread_.joinable()) return;
    is_abandoned_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

  // Has a thread make the groups. Called once, if at all.
  void Start() {
    thread_ = std::thread([this] { status_ = Make(); });
  }

  // Waits for the thread, or does its work. Called once, as the last.
  absl::StatusOr<std::vector<Group>> Take() {
    if (thread_.joinable()) {
      thread_.join();
    } else {
      status_ = Make();
    }
    MSITD_RETURN_IF_ERROR(status_);
    return groups_.Take();
  }

 private:
  absl::Status Make() {
    return AddSelected(
        store_, run_, selector_, group_by_,
        [this] {
          // No other memory hangs on the flag.
          return is_abandoned_.load(std::memory_order_relaxed)
                     ? absl::CancelledError("nobody waits for the groups")
                     : stop_();
        },
        groups_);
  }

  storage::ChunkStore& store_;
  const std::string_view run_;
  const TensorSelector selector_;
  const GroupBy group_by_;
  const StopCheck stop_;
  std::atomic<bool> is_abandoned_{false};
  std::thread thread_;
  // Of the thread, while it runs.
  GroupTable groups_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Group>> SummarizeTensors(
    storage::ChunkStore& store, std::string_view run,
    const TensorSelector& selector, GroupBy group_by, StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, store.GetRun(run));
  const std::optional<int64_t> middle =
      MiddleToken(selector, info.counters.token_end);
  GroupTable groups;
  if (group_by == GroupBy::kNone) MSITD_RETURN_IF_ERROR(groups.Add({}));
  if (!middle.has_value()) {
    MSITD_RETURN_IF_ERROR(
        AddSelected(store, run, selector, group_by, stop, groups));
  } else {
    UpperHalf upper(store, run, TokensFrom(selector, *middle), group_by, stop);
    int question_count = 0;
    const auto stop_or_share = [&] {
      if (++question_count == kQuestionsAlone) upper.Start();
      return stop();
    };
    MSITD_RETURN_IF_ERROR(AddSelected(store, run,
                                      TokensBelow(selector, *middle), group_by,
                                      stop_or_share, groups));
    MSITD_ASSIGN_OR_RETURN(std::vector<Group> added, upper.Take());
    for (Group& group : added) {
      MSITD_RETURN_IF_ERROR(groups.Add(std::move(group)));
    }
  }
  std::vector<Group> out = groups.Take();
  if (group_by == GroupBy::kRank || group_by == GroupBy::kToken) {
    std::sort(out.begin(), out.end(), NumberLess);
  }
  return out;
}

}  // namespace msitd::query
