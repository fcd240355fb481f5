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

#include "absl/functional/function_ref.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

using storage::TensorInfo;

// A scan that has called its stop check this many times has run for some
// milliseconds and is worth a second thread.
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

// Compares decimal numbers without leading zeros.
bool NumberLess(const Group& a, const Group& b) {
  return std::pair(a.key.size(), std::string_view(a.key)) <
         std::pair(b.key.size(), std::string_view(b.key));
}

// Groups, each with the position of its first tensor.
class GroupTable {
 public:
  // `position` is called only if the group is new.
  absl::Status Add(Group added, absl::FunctionRef<std::string()> position) {
    const auto [it, is_new] = index_of_.try_emplace(added.key, entries_.size());
    if (is_new) {
      if (entries_.size() == kGroupsMax) {
        return WithReason(
            MakeStatus(absl::StatusCode::kResourceExhausted,
                       "the tensors make more than {} groups", kGroupsMax),
            ErrorReason::kFieldInvalid);
      }
      entries_.push_back({std::move(added), position()});
      return absl::OkStatus();
    }
    Group& group = entries_[it->second].group;
    group.summary = group.tensor_count == 0
                        ? added.summary
                        : Merge(group.summary, added.summary);
    group.tensor_count += added.tensor_count;
    group.tensor_bytes += added.tensor_bytes;
    return absl::OkStatus();
  }

  // Adds all groups of `other`, which must consist of other tensors.
  absl::Status AddAll(GroupTable other) {
    for (Entry& added : other.entries_) {
      const auto it = index_of_.find(added.group.key);
      if (it != index_of_.end()) {
        Entry& entry = entries_[it->second];
        entry.position = std::min(entry.position, added.position);
      }
      MSITD_RETURN_IF_ERROR(
          Add(std::move(added.group), [&added] { return added.position; }));
    }
    return absl::OkStatus();
  }

  std::vector<Group> Take(GroupBy group_by) {
    const bool is_number =
        group_by == GroupBy::kRank || group_by == GroupBy::kToken;
    std::sort(entries_.begin(), entries_.end(),
              [is_number](const Entry& a, const Entry& b) {
                return is_number ? NumberLess(a.group, b.group)
                                 : a.position < b.position;
              });
    std::vector<Group> out;
    out.reserve(entries_.size());
    for (Entry& entry : entries_) out.push_back(std::move(entry.group));
    return out;
  }

 private:
  struct Entry {
    Group group;
    std::string position;  // In primary order.
  };

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_of_;
};

absl::Status AddSelected(storage::TensorScan& scan, GroupBy group_by,
                         storage::StopCheck stop, GroupTable& groups) {
  TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan.Next(tensor, stop));
    if (!found) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(groups.Add(
        {KeyOf(tensor.key, group_by), 1, tensor.tensor_bytes, tensor.summary},
        [&scan] { return scan.position(); }));
  }
}

// Restricts `selector` to the tokens from `first` to `last`, of which it must
// select some.
Selector Within(Selector selector, int64_t first, int64_t last) {
  if (selector.tokens.empty()) selector.tokens = {{0, kTokenMax}};
  std::erase_if(selector.tokens, [first, last](TokenRange& range) {
    range.first = std::max(range.first, first);
    range.last = std::min(range.last, last);
    return range.last < range.first;
  });
  // An empty list would select all tokens.
  MSITD_CHECK(!selector.tokens.empty());
  return selector;
}

// Returns the first token of the upper half of the tokens that `selector` spans
// below `token_end`; nullopt if it spans fewer than two. Both halves contain
// selected tokens.
std::optional<int64_t> MiddleToken(const Selector& selector,
                                   int64_t token_end) {
  int64_t first = selector.tokens.empty() ? 0 : kTokenMax;
  int64_t last = selector.tokens.empty() ? token_end - 1 : 0;
  for (const TokenRange& range : selector.tokens) {
    if (range.last < range.first) continue;
    first = std::min(first, range.first);
    last = std::max(last, std::min(range.last, token_end - 1));
  }
  if (first >= last) return std::nullopt;
  return first + (last - first) / 2 + 1;
}

// Computes the groups of one scan: on its own thread after Start, otherwise in
// Take.
class SpareScan {
 public:
  // Borrows everything that `stop` borrows.
  SpareScan(std::unique_ptr<storage::TensorScan> scan, GroupBy group_by,
            storage::StopCheck stop)
      : scan_(std::move(scan)), group_by_(group_by), stop_(stop) {}

  // Makes the thread end soon and waits for it.
  ~SpareScan() {
    if (!thread_.joinable()) return;
    is_abandoned_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

  // Makes a thread compute the groups if a thread is available. Must be called
  // at most once.
  void Start() {
    thread_ = StartSpareThread("reduction", [this] { status_ = Make(); });
  }

  // Waits for the thread, or computes the groups. Must be the last call, and
  // made only once.
  absl::StatusOr<GroupTable> Take() {
    if (thread_.joinable()) {
      thread_.join();
    } else {
      status_ = Make();
    }
    MSITD_RETURN_IF_ERROR(status_);
    return std::move(groups_);
  }

 private:
  absl::Status Make() {
    const auto stop = [this] {
      // Relaxed, because the flag publishes no other memory.
      return is_abandoned_.load(std::memory_order_relaxed)
                 ? absl::CancelledError("nobody waits for the groups")
                 : stop_();
    };
    return AddSelected(*scan_, group_by_, stop, groups_);
  }

  const std::unique_ptr<storage::TensorScan> scan_;
  const GroupBy group_by_;
  const storage::StopCheck stop_;
  std::atomic<bool> is_abandoned_{false};
  std::thread thread_;
  // Owned by the thread while it runs.
  GroupTable groups_;
  absl::Status status_;
};

// Adds the tensors with tokens below `middle` and the remaining ones. Does both
// at the same time if that is worth a thread.
absl::Status AddHalves(storage::RunReader& run, const Selector& selector,
                       int64_t middle, GroupBy group_by,
                       storage::StopCheck stop, GroupTable& groups) {
  // Both scans begin before either is read, so that they see the same tensors.
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> lower,
                         run.Scan(Within(selector, 0, middle - 1), ""));
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<storage::TensorScan> upper,
                         run.Scan(Within(selector, middle, kTokenMax), ""));
  SpareScan spare(std::move(upper), group_by, stop);
  int question_count = 0;
  const auto stop_or_share = [&] {
    if (++question_count == kQuestionsAlone) spare.Start();
    return stop();
  };
  MSITD_RETURN_IF_ERROR(AddSelected(*lower, group_by, stop_or_share, groups));
  MSITD_ASSIGN_OR_RETURN(GroupTable added, spare.Take());
  return groups.AddAll(std::move(added));
}

}  // namespace

absl::StatusOr<std::vector<Group>> SummarizeTensors(storage::RunReader& run,
                                                    const Selector& selector,
                                                    GroupBy group_by,
                                                    storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, run.GetInfo());
  GroupTable groups;
  if (group_by == GroupBy::kNone) {
    MSITD_RETURN_IF_ERROR(groups.Add({}, [] { return std::string(); }));
  }
  const std::optional<int64_t> middle =
      MiddleToken(selector, info.counters.token_end);
  if (middle.has_value()) {
    MSITD_RETURN_IF_ERROR(
        AddHalves(run, selector, *middle, group_by, stop, groups));
  } else {
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                           run.Scan(selector, ""));
    MSITD_RETURN_IF_ERROR(AddSelected(*scan, group_by, stop, groups));
  }
  return groups.Take(group_by);
}

}  // namespace msitd::query
