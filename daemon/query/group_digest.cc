// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/group_digest.h"

#include <utility>

#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::query {
absl::StatusOr<std::unique_ptr<GroupDigestScan>> GroupDigestScan::Begin(
    storage::RunReader& run, const Selector& selector,
    std::string_view position) {
  Selector every_record;
  every_record.ranks = selector.ranks;
  every_record.devices = selector.devices;
  every_record.tokens = selector.tokens;
  every_record.kinds = EveryRecordKind();
  std::unique_ptr<GroupDigestScan> out(new GroupDigestScan(position));
  MSITD_ASSIGN_OR_RETURN(out->scan_,
                         run.Scan(std::move(every_record), position));
  return out;
}

absl::StatusOr<bool> GroupDigestScan::Next(GroupDigest& out,
                                           storage::StopCheck stop) {
  while (!is_over_) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan_->Next(entry_, stop));
    is_over_ = !found;
    const TensorKey& key = entry_.key;
    const bool is_of_next =
        open_.has_value() &&
        (!found || key.rank != open_->at.rank || key.token != open_->at.token ||
         key.device != open_->at.device);
    if (is_of_next) {
      out = *std::move(open_);
      open_.reset();
      position_ = open_end_;
    }
    if (found) {
      if (!open_.has_value()) {
        open_.emplace();
        open_->at = {key.rank, key.device, key.token};
      }
      entry_.stack.clear();
      entry_.alias_of.reset();
      const ContentHash hash = hasher_.Hash(entry_);
      open_->hash.low += hash.low;
      open_->hash.high += hash.high;
      ++open_->record_count;
      open_end_ = scan_->position();
    }
    if (is_of_next) return true;
  }
  return false;
}

}  // namespace msitd::query
