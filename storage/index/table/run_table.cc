// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/run_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/fair_share.h"
#include "protos/status/status.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

constexpr char kRunTag = 'r';
constexpr char kCountersTag = 'c';

std::string RunKey(std::string_view name) {
  return std::string(1, kRunTag).append(name);
}

std::string IdKey(char tag, RunId id) {
  return tag + BigEndianKey(static_cast<uint64_t>(id));
}

absl::Status NotFound(std::string_view name) {
  return WithMetadata(WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                            "there is no run {}", name),
                                 ErrorReason::kRunNotFound),
                      "run", name);
}

absl::Status NotFound(RunId id) {
  return NotFound(fmt::format("of id {}", static_cast<uint64_t>(id)));
}

// See RunTable::kTextBytesMax.
uint64_t TextBytes(const RunInfo& run) {
  uint64_t bytes = run.capture_policy.size();
  for (const auto& [name, value] : run.spec.labels) {
    bytes += name.size() + value.size() + RunTable::kLabelBytes;
  }
  return bytes;
}

RunBrief BriefOf(const RunInfo& run) {
  return {run.id, run.sealed, run.spec.restoring, run.retention, run.counters};
}

}  // namespace

absl::Status RunTable::LoadCounters(RunInfo& run) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> counters,
                         db_.Get(Table::kRun, IdKey(kCountersTag, run.id)));
  if (counters.has_value() && !DecodeCounters(*counters, run.counters)) {
    return IndexCorrupt("run");
  }
  return absl::OkStatus();
}

absl::Status RunTable::Load() {
  const std::string begin(1, kRunTag);
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    RunInfo run;
    if (!DecodeRun(it->value().ToStringView(), run)) {
      return IndexCorrupt("run");
    }
    run.spec.name = it->key().ToStringView().substr(1);
    MSITD_RETURN_IF_ERROR(LoadCounters(run));
    const RunCounters counters = run.counters;
    Accept(run);
    AcceptCounters(run.id, counters);
  }
  return ToStatus(it->status(), "read runs");
}

absl::StatusOr<RunInfo> RunTable::Get(std::string_view name) {
  const MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return NotFound(name);
  return it->second;
}

absl::StatusOr<RunInfo> RunTable::GetById(RunId id) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it == by_id_.end()) return NotFound(id);
  return *it->second;
}

absl::StatusOr<RunBrief> RunTable::Brief(std::string_view name) {
  const MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return NotFound(name);
  return BriefOf(it->second);
}

absl::StatusOr<RunBrief> RunTable::BriefById(RunId id) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it == by_id_.end()) return NotFound(id);
  return BriefOf(*it->second);
}

std::vector<RunBrief> RunTable::Briefs() {
  const MutexLock lock(mu_);
  std::vector<RunBrief> out;
  out.reserve(runs_.size());
  for (const auto& [name, run] : runs_) out.push_back(BriefOf(run));
  return out;
}

void RunTable::Count(const RunInfo& run) {
  for (Usage* usage : {&usage_, &usage_of_[run.spec.owner]}) {
    ++usage->run_count;
    usage->text_bytes += TextBytes(run);
  }
}

void RunTable::Uncount(const RunInfo& run) {
  const auto own = usage_of_.find(run.spec.owner);
  for (Usage* usage : {&usage_, &own->second}) {
    --usage->run_count;
    usage->text_bytes -= TextBytes(run);
  }
  if (own->second.run_count == 0) usage_of_.erase(own);
}

absl::Status RunTable::CheckRoomFor(const RunInfo& run) {
  const MutexLock lock(mu_);
  const auto it = runs_.find(run.spec.name);
  const bool is_new = it == runs_.end();
  const auto owner = usage_of_.find(run.spec.owner);
  const Usage own = owner == usage_of_.end() ? Usage() : owner->second;
  const bool is_admin = run.spec.is_for_admin;
  const uint64_t before = is_new ? 0 : TextBytes(it->second);
  const uint64_t after = TextBytes(run);
  const auto refuse = [&](std::string_view what, uint64_t used, uint64_t mine,
                          uint64_t limit) {
    return WithReason(
        MakeStatus(absl::StatusCode::kResourceExhausted,
                   "there is no room for run {}: {} {} are in use, {} of them "
                   "by its owner, and the store takes {}, of which a part is "
                   "kept for other owners",
                   run.spec.name, used, what, mine, limit),
        ErrorReason::kRunsExhausted);
  };
  if (is_new && !FairShare{kRunsMax}.Admits(is_admin, own.run_count,
                                            usage_.run_count, 1)) {
    return refuse("runs", usage_.run_count, own.run_count, kRunsMax);
  }
  if (after > before &&
      !FairShare{kTextBytesMax}.Admits(is_admin, own.text_bytes,
                                       usage_.text_bytes, after - before)) {
    return refuse("bytes of labels and capture policies", usage_.text_bytes,
                  own.text_bytes, kTextBytesMax);
  }
  return absl::OkStatus();
}

std::vector<RunInfo> RunTable::List(std::string_view after, size_t limit) {
  const MutexLock lock(mu_);
  std::vector<RunInfo> out;
  for (auto it = runs_.upper_bound(after);
       it != runs_.end() && out.size() < limit; ++it) {
    out.push_back(it->second);
  }
  return out;
}

size_t RunTable::size() {
  const MutexLock lock(mu_);
  return runs_.size();
}

RunTable::Pinned RunTable::CountPinned() {
  Pinned out;
  const MutexLock lock(mu_);
  for (const auto& [name, run] : runs_) {
    if (!run.retention.pinned) continue;
    ++out.run_count;
    out.kept_bytes += run.counters.kept_bytes();
  }
  return out;
}

void RunTable::AppendTo(rocksdb::WriteBatch& batch, const RunInfo& run) const {
  db_.Put(batch, Table::kRun, RunKey(run.spec.name), EncodeRun(run));
}

void RunTable::AppendHidingTo(rocksdb::WriteBatch& batch,
                              std::string_view name) const {
  db_.Delete(batch, Table::kRun, RunKey(name));
}

void RunTable::AppendRemovalTo(rocksdb::WriteBatch& batch, RunId id) const {
  db_.Delete(batch, Table::kRun, IdKey(kCountersTag, id));
}

void RunTable::AppendCountersTo(rocksdb::WriteBatch& batch, RunId id,
                                const RunCounters& counters) const {
  db_.Put(batch, Table::kRun, IdKey(kCountersTag, id),
          EncodeCounters(counters));
}

void RunTable::Accept(const RunInfo& run) {
  const MutexLock lock(mu_);
  const auto [it, inserted] = runs_.try_emplace(run.spec.name);
  const RunCounters counters = it->second.counters;
  if (!inserted) Uncount(it->second);
  it->second = run;
  it->second.spec.is_for_admin = false;
  it->second.counters = counters;
  Count(run);
  if (inserted) by_id_[static_cast<uint64_t>(run.id)] = &it->second;
}

void RunTable::AcceptRemoval(std::string_view name) {
  const MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return;
  by_id_.erase(static_cast<uint64_t>(it->second.id));
  Uncount(it->second);
  runs_.erase(it);
}

void RunTable::AcceptCounters(RunId id, const RunCounters& counters) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it == by_id_.end()) return;
  const RunCounters before = it->second->counters;
  it->second->counters = counters;
  it->second->counters.dropped_count = before.dropped_count;
  it->second->counters.truncated_count = before.truncated_count;
  it->second->counters.expired_bytes = before.expired_bytes;
  it->second->counters.missing_bytes = before.missing_bytes;
  it->second->counters.unread_place_count = before.unread_place_count;
}

void RunTable::AcceptLoss(RunId id, const StreamCoverage& loss) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it == by_id_.end()) return;
  RunCounters& counters = it->second->counters;
  const StreamCoverage total =
      Sum(loss, {.dropped_count = counters.dropped_count,
                 .truncated_count = counters.truncated_count});
  counters.dropped_count = total.dropped_count;
  counters.truncated_count = total.truncated_count;
}

void RunTable::AcceptExpired(RunId id, uint64_t expired_bytes) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it != by_id_.end()) it->second->counters.expired_bytes = expired_bytes;
}

void RunTable::AcceptMissing(RunId id, uint64_t missing_bytes) {
  const MutexLock lock(mu_);
  const auto it = by_id_.find(static_cast<uint64_t>(id));
  if (it != by_id_.end()) it->second->counters.missing_bytes = missing_bytes;
}

void RunTable::AcceptUnread(uint64_t place_count) {
  const MutexLock lock(mu_);
  for (const auto& [id, run] : by_id_) {
    run->counters.unread_place_count = place_count;
  }
}

}  // namespace msitd::storage
