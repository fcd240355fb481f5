// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/run_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

// Keys of the old index; docs/format/index.md has them.
constexpr std::string_view kRunPrefixOfNames = "r";
constexpr std::string_view kGonePrefix = "g";
constexpr size_t kGoneKeyBytes = 9;
constexpr std::string_view kUsePrefix = "l";
constexpr size_t kUseKeyBytes = 17;
constexpr std::string_view kLogPositionKey = "log_position";
constexpr uint8_t kHiddenStage = 0;

// What the old index says about runs.
struct OldRuns {
  std::map<std::string, RunInfo> by_name;
  std::map<uint64_t, uint8_t> gone;  // Deleted ones; the stage of each.
  std::set<uint64_t> used;           // Those that segments are kept for.
  uint64_t next_run_id = 0;          // 0: not known.
  std::optional<LogPosition> position;
};

absl::StatusOr<OldRuns> ReadOldRuns(IndexSalvage& old) {
  OldRuns out;
  MSITD_RETURN_IF_ERROR(
      old.ForEach(Table::kRun, kRunPrefixOfNames,
                  [&](std::string_view key, std::string_view value) {
                    RunInfo run;
                    if (key.size() < 2 || !DecodeRun(value, run))
                      return absl::OkStatus();
                    run.spec.name = key.substr(1);
                    out.by_name[run.spec.name] = std::move(run);
                    return absl::OkStatus();
                  }));
  MSITD_RETURN_IF_ERROR(old.ForEach(
      Table::kRun, kGonePrefix,
      [&](std::string_view key, std::string_view value) {
        uint8_t stage = 0;
        if (key.size() != kGoneKeyBytes || !DecodeGoneStage(value, stage)) {
          return absl::OkStatus();
        }
        out.gone[GetBigEndian(key.data() + 1, 8)] = stage;
        return absl::OkStatus();
      }));
  MSITD_RETURN_IF_ERROR(
      old.ForEach(Table::kSegment, kUsePrefix,
                  [&](std::string_view key, std::string_view /*value*/) {
                    if (key.size() == kUseKeyBytes) {
                      out.used.insert(GetBigEndian(key.data() + 9, 8));
                    }
                    return absl::OkStatus();
                  }));
  const auto next = old.Get(Table::kMeta, kNextRunIdKey);
  if (next.has_value() && next->size() == 8) {
    out.next_run_id = GetBigEndian(next->data(), 8);
  }
  LogPosition position;
  const auto value = old.Get(Table::kMeta, kLogPositionKey);
  if (value.has_value() && DecodePosition(*value, position)) {
    out.position = position;
  }
  return out;
}

// True if a run of the segments that the old index does not have was deleted.
bool WasDeleted(IndexSalvage& old, const OldRuns& runs, uint64_t number,
                const LoggedRun& run) {
  if (runs.gone.contains(number)) return true;
  // The index is older than the run.
  if (runs.next_run_id == 0 || number >= runs.next_run_id) return false;
  if (old.IsComplete(Table::kRun)) return true;
  // The run had frames that were in the index, and no segment is kept for it.
  return old.IsComplete(Table::kSegment) && runs.position.has_value() &&
         run.first <
             BytePlace{runs.position->segment_id, runs.position->offset} &&
         !runs.used.contains(number);
}

}  // namespace

absl::StatusOr<RunChoice> ChooseRuns(IndexSalvage& old,
                                     const LoggedRuns& logged) {
  MSITD_ASSIGN_OR_RETURN(OldRuns runs, ReadOldRuns(old));
  RunChoice out;
  out.next_run_id = std::max<uint64_t>(runs.next_run_id, 1);
  // The number of the last run of each name.
  std::map<std::string, uint64_t> last;
  for (const auto& [name, run] : runs.by_name) {
    const auto number = static_cast<uint64_t>(run.id);
    if (!runs.gone.contains(number)) last[name] = number;
  }
  for (const auto& [number, run] : logged) {
    out.next_run_id = std::max(out.next_run_id, number + 1);
    uint64_t& newest = last[run.name];
    newest = std::max(newest, number);
  }
  for (auto& [name, run] : runs.by_name) {
    const auto number = static_cast<uint64_t>(run.id);
    out.next_run_id = std::max(out.next_run_id, number + 1);
    const auto newest = last.find(name);
    if (newest == last.end() || newest->second != number) continue;
    // A damaged table may have a number twice.
    if (!out.numbers.insert(number).second) continue;
    out.kept.push_back(std::move(run));
  }
  for (const auto& [number, stage] : runs.gone) {
    out.next_run_id = std::max(out.next_run_id, number + 1);
    if (stage == kHiddenStage && !out.numbers.contains(number)) {
      out.hidden.insert(number);
    }
  }
  for (const auto& [number, run] : logged) {
    if (out.numbers.contains(number)) continue;
    if (last[run.name] != number || WasDeleted(old, runs, number, run)) {
      out.deleted.insert(number);
      continue;
    }
    RunInfo info;
    info.id = RunId{number};
    info.spec.name = run.name;
    info.spec.labels = {{kRebuiltLabel, kRebuiltFromSegments}};
    info.create_time_ns = run.first_receive_ns;
    out.numbers.insert(number);
    out.recovered.push_back(std::move(info));
  }
  return out;
}

}  // namespace msitd::storage
