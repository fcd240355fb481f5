// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/glob.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Names hold no NUL, so it keeps the components apart.
std::string NameOf(std::string_view op, const TensorKey& key,
                   bool with_device) {
  std::string out = fmt::format("{}{}{}{}{}{}{}", op, '\0', key.call, '\0',
                                IoName(key.io), '\0', key.index);
  if (with_device) {
    out += '\0';
    out += key.device;
  }
  return out;
}

// What fuzzy matching goes by.
std::string LooseNameOf(std::string_view op, const storage::TensorInfo& tensor,
                        bool with_device) {
  std::string out =
      fmt::format("{}{}{}{}{}{}{}", op, '\0', fmt::join(tensor.shape, ","),
                  '\0', IoName(tensor.key.io), '\0', tensor.key.index);
  if (with_device) {
    out += '\0';
    out += tensor.key.device;
  }
  return out;
}

bool ExecutesBefore(const storage::TensorInfo& a,
                    const storage::TensorInfo& b) {
  const auto order = [](const storage::TensorInfo& tensor) {
    const TensorKey& key = tensor.key;
    return std::tie(tensor.sequence, key.io, key.index, key.op, key.call,
                    key.device);
  };
  return order(a) < order(b);
}

}  // namespace

absl::StatusOr<TensorMatcher> TensorMatcher::Create(
    storage::ChunkStore& store, std::string golden_run, std::string target_run,
    storage::TensorSelector selector, Matching matching) {
  TensorMatcher out(store, std::move(golden_run), std::move(target_run),
                    std::move(selector), std::move(matching));
  MSITD_RETURN_IF_ERROR(out.AddGoldenCoordinates());
  MSITD_RETURN_IF_ERROR(out.AddTargetCoordinates());
  std::sort(out.groups_.begin(), out.groups_.end());
  out.groups_.erase(std::unique(out.groups_.begin(), out.groups_.end()),
                    out.groups_.end());
  if (out.groups_.size() > kGroupsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} pairs of rank and token to compare, at most {}; "
                      "narrow the filter by rank or token",
                      out.groups_.size(), kGroupsMax);
  }
  return out;
}

absl::Status TensorMatcher::AddGoldenCoordinates() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::Coordinate> coordinates,
                         store_->ListCoordinates(golden_run_, selector_));
  for (const storage::Coordinate& at : coordinates) {
    int32_t ignored = 0;
    if (!matching_.TargetRank(at.rank, ignored)) continue;
    AddGroup(at.rank, at.token, at.device, &RankDevices::golden);
    int64_t& last = devices_[at.rank].golden_token;
    last = std::max(last, at.token);
  }
  return absl::OkStatus();
}

absl::Status TensorMatcher::AddTargetCoordinates() {
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<storage::Coordinate> coordinates,
      store_->ListCoordinates(target_run_, TargetSelector()));
  for (const storage::Coordinate& at : coordinates) {
    int32_t golden_rank = 0;
    if (!matching_.GoldenRank(at.rank, golden_rank)) continue;
    const int64_t token = at.token - matching_.token_offset();
    AddGroup(golden_rank, token, at.device, &RankDevices::target);
    int64_t& last = devices_[golden_rank].target_token;
    last = std::max(last, token);
  }
  return absl::OkStatus();
}

void TensorMatcher::AddGroup(int32_t rank, int64_t token,
                             const std::string& device,
                             std::vector<std::string> RankDevices::*side) {
  groups_.push_back({token, rank});
  std::vector<std::string>& devices = devices_[rank].*side;
  if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
    devices.push_back(device);
  }
}

storage::TensorSelector TensorMatcher::TargetSelector() const {
  storage::TensorSelector out = selector_;
  // A golden rank without a counterpart selects nothing.
  std::erase_if(out.ranks, [this](int32_t& rank) {
    return !matching_.TargetRank(rank, rank);
  });
  if (out.ranks.empty() && !selector_.ranks.empty()) out.ranks = {-1};
  for (storage::TokenRange& range : out.tokens) {
    range.first += matching_.token_offset();
    range.last += matching_.token_offset();
  }
  // Patterns are for golden names, which are made later.
  if (matching_.renames()) out.op_patterns.clear();
  return out;
}

bool TensorMatcher::IsSelected(const storage::TensorInfo& target) const {
  if (selector_.op_patterns.empty() || !matching_.renames()) return true;
  const std::string op = matching_.GoldenOpOf(target.key.op);
  return std::any_of(
      selector_.op_patterns.begin(), selector_.op_patterns.end(),
      [&](const std::string& pattern) { return GlobMatch(pattern, op); });
}

bool TensorMatcher::IsComplete(size_t index, bool golden_sealed,
                               bool target_sealed) const {
  MSITD_CHECK(index < groups_.size());
  const GroupKey& key = groups_[index];
  const RankDevices& rank = devices_.at(key.rank);
  return (golden_sealed || rank.golden_token > key.token) &&
         (target_sealed || rank.target_token > key.token);
}

absl::StatusOr<TensorGroup> TensorMatcher::Load(size_t index) const {
  MSITD_CHECK(index < groups_.size());
  const GroupKey& key = groups_[index];
  const RankDevices& devices = devices_.at(key.rank);
  TensorGroup group;
  group.token = key.token;
  group.rank = key.rank;
  MSITD_ASSIGN_OR_RETURN(
      const bool golden_fits,
      LoadSide(golden_run_, selector_, key, devices.golden, group.golden));
  GroupKey target_key = {key.token + matching_.token_offset(), key.rank};
  // Groups were made of ranks that have a counterpart.
  MSITD_CHECK(matching_.TargetRank(key.rank, target_key.rank));
  MSITD_ASSIGN_OR_RETURN(const bool target_fits,
                         LoadSide(target_run_, TargetSelector(), target_key,
                                  devices.target, group.target));
  if (!golden_fits || !target_fits) {
    group.too_large_run = golden_fits ? target_run_ : golden_run_;
    group.golden.clear();
    group.target.clear();
    return group;
  }
  Match(devices.golden.size() > 1 || devices.target.size() > 1, group);
  return group;
}

absl::StatusOr<bool> TensorMatcher::LoadSide(
    const std::string& run, storage::TensorSelector selector,
    const GroupKey& key, const std::vector<std::string>& devices,
    std::vector<storage::TensorInfo>& out) const {
  if (devices.empty() || key.token < 0) return true;
  selector.ranks = {key.rank};
  selector.devices = devices;
  selector.tokens = {{key.token, key.token}};
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         store_->Scan(run, std::move(selector), ""));
  while (true) {
    storage::TensorInfo tensor;
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor));
    if (!more) break;
    if (out.size() == kGroupTensorsMax) return false;
    tensor.key.run = std::string();
    tensor.parts = std::vector<storage::PartLocation>();
    out.push_back(std::move(tensor));
  }
  return true;
}

void TensorMatcher::Match(bool with_device, TensorGroup& group) const {
  std::sort(group.golden.begin(), group.golden.end(), ExecutesBefore);
  std::sort(group.target.begin(), group.target.end(), ExecutesBefore);
  std::unordered_map<std::string, size_t> target_by_name;
  target_by_name.reserve(group.target.size());
  for (size_t i = 0; i < group.target.size(); ++i) {
    const TensorKey& key = group.target[i].key;
    target_by_name.emplace(
        NameOf(matching_.KeyOfTarget(key.op), key, with_device), i);
  }
  std::vector<bool> matched(group.target.size());
  group.pairs.reserve(group.golden.size());
  for (const storage::TensorInfo& golden : group.golden) {
    TensorPair pair{&golden, nullptr};
    const auto found = target_by_name.find(
        NameOf(matching_.KeyOfGolden(golden.key.op), golden.key, with_device));
    // Two golden names may be one but for case.
    if (found != target_by_name.end() && !matched[found->second]) {
      pair.target = &group.target[found->second];
      matched[found->second] = true;
    }
    group.pairs.push_back(pair);
  }
  if (matching_.fuzzy()) {
    MatchLeftOvers(false, with_device, group, matched);
    MatchLeftOvers(true, with_device, group, matched);
  }
  for (size_t i = 0; i < group.target.size(); ++i) {
    if (matched[i] || !IsSelected(group.target[i])) continue;
    group.pairs.push_back({nullptr, &group.target[i]});
  }
}

void TensorMatcher::MatchLeftOvers(bool loose, bool with_device,
                                   TensorGroup& group,
                                   std::vector<bool>& matched) const {
  const auto name_of = [&](std::string op, const storage::TensorInfo& tensor) {
    if (loose) op = Matching::LooseName(op);
    return LooseNameOf(op, tensor, with_device);
  };
  // The left-over targets of one name, in order; `next` is the first free one.
  struct Queue {
    std::vector<size_t> targets;
    size_t next = 0;
  };
  std::unordered_map<std::string, Queue> queues;
  for (size_t i = 0; i < group.target.size(); ++i) {
    if (matched[i]) continue;
    const storage::TensorInfo& target = group.target[i];
    queues[name_of(matching_.KeyOfTarget(target.key.op), target)]
        .targets.push_back(i);
  }
  for (TensorPair& pair : group.pairs) {
    if (pair.target != nullptr) continue;
    const auto found = queues.find(
        name_of(matching_.KeyOfGolden(pair.golden->key.op), *pair.golden));
    if (found == queues.end()) continue;
    Queue& queue = found->second;
    if (queue.next == queue.targets.size()) continue;
    const size_t target = queue.targets[queue.next++];
    pair.target = &group.target[target];
    matched[target] = true;
  }
}

}  // namespace msitd::compare
