// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/record_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/job/not_recorded.h"
#include "protos/status/status.h"

namespace msitd::origin {
namespace {

// End of the names of classes of key-value caches.
constexpr std::string_view kCacheClass = "Cache";

}  // namespace

absl::StatusOr<RecordFacts> RecordFacts::Read(
    storage::RunReader& run, const storage::RunInfo& info, int32_t rank,
    const compare::LossesByRank& losses, storage::StopCheck stop) {
  RecordFacts out;
  const auto reported = losses.ranks.find(rank);
  out.may_lack_records_ = losses.unread_place_count > 0 ||
                          reported == losses.ranks.end() ||
                          reported->second != compare::RunLosses();
  if (!info.capture_policy.empty() &&
      !capture::Decode(info.capture_policy, out.policies_)) {
    // A policy that cannot be read may exclude anything.
    out.may_lack_records_ = true;
    out.policies_.clear();
  }
  MSITD_ASSIGN_OR_RETURN(auto not_recorded,
                         compare::FindNotRecorded(run, {rank}, stop));
  for (const v1::NotRecorded& reason : not_recorded[rank].reasons) {
    if (reason.is_harmless()) continue;
    out.reasons_.push_back(
        {reason.reason(), reason.op(), reason.index(), reason.count()});
  }
  out.uncalled_ = std::move(not_recorded[rank].uncalled);
  return out;
}

bool RecordFacts::FiltersOps(int64_t token) const {
  // The last policy that has begun applies; without one, everything is
  // recorded.
  const capture::Policy* applies = nullptr;
  for (const capture::Policy& policy : policies_) {
    if (policy.first_token <= token) applies = &policy;
  }
  if (applies == nullptr) return false;
  return std::any_of(applies->rules.begin(), applies->rules.end(),
                     [](const capture::Rule& rule) {
                       return !rule.tensors.op_patterns.empty() ||
                              !rule.tensors.ios.empty();
                     });
}

std::string RecordFacts::NotRecordedAt(std::string_view op) const {
  for (const Reason& reason : reasons_) {
    // A cache holds results of earlier calls, which are recorded themselves.
    if (reason.reason.ends_with(kCacheClass)) continue;
    const bool may_be_here =
        reason.op == op || (reason.count != 1 && !reason.index.empty());
    if (!may_be_here) continue;
    return reason.index.empty()
               ? reason.reason
               : fmt::format("argument {}: {}", reason.index, reason.reason);
  }
  return "";
}

bool RecordFacts::IsUncalled(std::string_view op) const {
  return std::binary_search(uncalled_.begin(), uncalled_.end(), op);
}

}  // namespace msitd::origin
