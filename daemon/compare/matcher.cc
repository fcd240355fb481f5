// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Names hold no NUL, so it keeps the components apart.
std::string NameOf(const TensorKey& key, bool with_device) {
  std::string out = fmt::format("{}{}{}{}{}{}{}", key.op, '\0', key.call, '\0',
                                IoName(key.io), '\0', key.index);
  if (with_device) {
    out += '\0';
    out += key.device;
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

absl::StatusOr<ExactMatcher> ExactMatcher::Create(
    storage::ChunkStore& store, std::string golden_run, std::string target_run,
    storage::TensorSelector selector) {
  ExactMatcher out(store, std::move(golden_run), std::move(target_run),
                   std::move(selector));
  MSITD_RETURN_IF_ERROR(
      out.AddCoordinates(out.golden_run_, &RankDevices::golden));
  MSITD_RETURN_IF_ERROR(
      out.AddCoordinates(out.target_run_, &RankDevices::target));
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

absl::Status ExactMatcher::AddCoordinates(
    const std::string& run, std::vector<std::string> RankDevices::*side) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::Coordinate> coordinates,
                         store_->ListCoordinates(run, selector_));
  for (const storage::Coordinate& at : coordinates) {
    groups_.push_back({at.token, at.rank});
    std::vector<std::string>& devices = devices_[at.rank].*side;
    if (std::find(devices.begin(), devices.end(), at.device) == devices.end()) {
      devices.push_back(at.device);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorGroup> ExactMatcher::Load(size_t index) const {
  MSITD_CHECK(index < groups_.size());
  const GroupKey& key = groups_[index];
  const RankDevices& devices = devices_.at(key.rank);
  TensorGroup group;
  group.token = key.token;
  group.rank = key.rank;
  MSITD_ASSIGN_OR_RETURN(
      const bool golden_fits,
      LoadSide(golden_run_, key, devices.golden, group.golden));
  MSITD_ASSIGN_OR_RETURN(
      const bool target_fits,
      LoadSide(target_run_, key, devices.target, group.target));
  if (!golden_fits || !target_fits) {
    group.too_large_run = golden_fits ? target_run_ : golden_run_;
    group.golden.clear();
    group.target.clear();
    return group;
  }
  MatchByName(devices.golden.size() > 1 || devices.target.size() > 1, group);
  return group;
}

absl::StatusOr<bool> ExactMatcher::LoadSide(
    const std::string& run, const GroupKey& key,
    const std::vector<std::string>& devices,
    std::vector<storage::TensorInfo>& out) const {
  if (devices.empty()) return true;
  storage::TensorSelector selector = selector_;
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

void ExactMatcher::MatchByName(bool with_device, TensorGroup& group) {
  std::sort(group.golden.begin(), group.golden.end(), ExecutesBefore);
  std::sort(group.target.begin(), group.target.end(), ExecutesBefore);
  std::unordered_map<std::string, size_t> target_by_name;
  target_by_name.reserve(group.target.size());
  for (size_t i = 0; i < group.target.size(); ++i) {
    target_by_name.emplace(NameOf(group.target[i].key, with_device), i);
  }
  std::vector<bool> matched(group.target.size());
  group.pairs.reserve(group.golden.size());
  for (const storage::TensorInfo& golden : group.golden) {
    TensorPair pair{&golden, nullptr};
    const auto found = target_by_name.find(NameOf(golden.key, with_device));
    if (found != target_by_name.end()) {
      pair.target = &group.target[found->second];
      matched[found->second] = true;
    }
    group.pairs.push_back(pair);
  }
  for (size_t i = 0; i < group.target.size(); ++i) {
    if (!matched[i]) group.pairs.push_back({nullptr, &group.target[i]});
  }
}

}  // namespace msitd::compare
