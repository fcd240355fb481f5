// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_query.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "protos/status/status.h"

namespace msitd::query {
namespace {

using storage::TensorInfo;

// Often enough to stop within milliseconds, seldom enough to cost nothing.
constexpr uint64_t kStopCheckInterval = 256;

std::string GroupKey(const TensorKey& key, GroupBy group_by) {
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

absl::StatusOr<std::unique_ptr<storage::TensorScan>> BeginScan(
    storage::ChunkStore& store, std::string_view run,
    const storage::TensorSelector& selector, std::string_view position) {
  MSITD_RETURN_IF_ERROR(store.GetRun(run).status());
  return store.Scan(run, selector, position);
}

}  // namespace

absl::StatusOr<TensorPage> ListTensors(
    storage::ChunkStore& store, std::string_view run,
    const storage::TensorSelector& selector, std::string_view position,
    size_t page_size, absl::FunctionRef<bool(const TensorInfo&)> condition,
    StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         BeginScan(store, run, selector, position));
  TensorPage page;
  TensorInfo tensor;
  for (uint64_t scanned = 0;; ++scanned) {
    if (scanned % kStopCheckInterval == 0) MSITD_RETURN_IF_ERROR(stop());
    const bool full =
        page.tensors.size() == page_size || scanned == kPageScanMax;
    // Looking one tensor further spares the client an empty last page.
    std::string here = full ? scan->position() : std::string();
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(tensor));
    if (!found) return page;
    if (full) {
      page.position = std::move(here);
      return page;
    }
    if (condition(tensor)) page.tensors.push_back(tensor);
  }
}

absl::StatusOr<std::vector<Group>> SummarizeTensors(
    storage::ChunkStore& store, std::string_view run,
    const storage::TensorSelector& selector, GroupBy group_by, StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         BeginScan(store, run, selector, {}));
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> index_of;
  if (group_by == GroupBy::kNone) {
    groups.emplace_back();
    index_of.emplace("", 0);
  }
  TensorInfo tensor;
  for (uint64_t scanned = 0;; ++scanned) {
    if (scanned % kStopCheckInterval == 0) MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(tensor));
    if (!found) break;
    std::string key = GroupKey(tensor.key, group_by);
    const auto [it, added] = index_of.try_emplace(key, groups.size());
    if (added) {
      if (groups.size() == kGroupsMax) {
        return WithReason(
            MakeStatus(absl::StatusCode::kResourceExhausted,
                       "the tensors make more than {} groups", kGroupsMax),
            "FIELD_INVALID");
      }
      groups.emplace_back().key = std::move(key);
    }
    Group& group = groups[it->second];
    group.summary = group.tensor_count == 0
                        ? tensor.summary
                        : Merge(group.summary, tensor.summary);
    ++group.tensor_count;
    group.tensor_bytes += tensor.tensor_bytes;
  }
  if (group_by == GroupBy::kRank || group_by == GroupBy::kToken) {
    std::sort(groups.begin(), groups.end(), NumberLess);
  }
  return groups;
}

}  // namespace msitd::query
