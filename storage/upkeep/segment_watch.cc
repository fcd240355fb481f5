// SPDX-License-Identifier: Apache-2.0
#include "storage/upkeep/segment_watch.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

uint64_t SegmentWatch::NeededBytes(SegmentId segment, RunId run,
                                   uint64_t live_bytes) {
  const ExpiryMark mark = index_.expiry().Mark(segment, run);
  if (mark.end == ExpiryMark::kAll || !index_.runs().BriefById(run).ok()) {
    return 0;
  }
  return live_bytes - std::min(live_bytes, mark.bytes);
}

absl::Status SegmentWatch::Begin(const std::vector<SegmentFile>& files,
                                 const std::map<uint64_t, uint64_t>& ends) {
  std::map<uint64_t, uint64_t> sizes;
  for (const SegmentFile& file : files) {
    if (file.IsForeignTo(index_.store_id())) continue;
    sizes[ToNumber(file.id)] = file.size_bytes;
  }
  const auto end_of = [&ends](uint64_t number) {
    const auto it = ends.find(number);
    return it == ends.end() ? kSegmentHeaderBytes : it->second;
  };
  missing_.clear();
  MSITD_RETURN_IF_ERROR(index_.segments().ForEachUse(
      [&](SegmentId segment, RunId run, uint64_t live_bytes) {
        const uint64_t number = ToNumber(segment);
        const uint64_t end = end_of(number);
        const auto size = sizes.find(number);
        if (size != sizes.end() && size->second >= end) return;
        const uint64_t bytes = NeededBytes(segment, run, live_bytes);
        if (bytes == 0) return;
        Segment& one = missing_[number];
        one.end_bytes = end;
        one.needed[static_cast<uint64_t>(run)] = bytes;
      }));
  Publish();
  if (!missing_.empty()) {
    const MissingSegments missing = Missing();
    StorageLogger()->error(
        "segments are missing count={} bytes={} first={}: their files are not "
        "there or cut short; tensors in them cannot be read until they are "
        "back",
        missing.count, missing.bytes, missing.first.front().segment);
  }
  return absl::OkStatus();
}

absl::Status SegmentWatch::Measure(uint64_t number, Segment& segment) {
  segment.needed.clear();
  const SegmentId id{number};
  MSITD_ASSIGN_OR_RETURN(const std::vector<RunId> runs,
                         index_.segments().RunsIn(id));
  for (const RunId run : runs) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> live,
                           index_.segments().LiveBytes(id, run));
    const uint64_t bytes = NeededBytes(id, run, live.value_or(0));
    if (bytes > 0) segment.needed[static_cast<uint64_t>(run)] = bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentWatch::Changes> SegmentWatch::LookAgain(
    const std::vector<uint64_t>& present) {
  Changes changes;
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         env_.List(segment_directory_));
  std::set<uint64_t> numbers;
  for (const std::string& name : names) {
    const std::optional<SegmentId> id = ParseSegmentFileName(name);
    if (id.has_value()) numbers.insert(ToNumber(*id));
  }
  for (const uint64_t number : present) {
    if (numbers.contains(number)) continue;
    changes.vanished.push_back(SegmentId{number});
    missing_.try_emplace(number, Segment{kSegmentHeaderBytes, {}});
  }
  for (auto it = missing_.begin(); it != missing_.end();) {
    auto& [number, segment] = *it;
    MSITD_RETURN_IF_ERROR(Measure(number, segment));
    bool is_back = false;
    if (numbers.contains(number)) {
      auto file = ExamineSegment(env_, segment_directory_, SegmentId{number});
      is_back = file.ok() && !file->IsForeignTo(index_.store_id()) &&
                file->size_bytes >= segment.end_bytes;
      if (is_back) changes.returned.push_back(*std::move(file));
    }
    it = is_back || segment.needed.empty() ? missing_.erase(it) : std::next(it);
  }
  Publish();
  return changes;
}

MissingSegments SegmentWatch::Missing() const {
  MissingSegments out;
  out.count = missing_.size();
  for (const auto& [number, segment] : missing_) {
    MissingSegment one;
    for (const auto& [run, bytes] : segment.needed) {
      one.bytes += bytes;
      if (one.runs.size() >= MissingSegment::kRunsShown) continue;
      const auto info = index_.runs().GetById(RunId{run});
      if (info.ok()) one.runs.push_back(info->spec.name);
    }
    out.bytes += one.bytes;
    if (out.first.size() >= MissingSegments::kSegmentsShown) continue;
    one.segment = SegmentFileName(SegmentId{number});
    out.first.push_back(std::move(one));
  }
  return out;
}

void SegmentWatch::Publish() {
  std::map<uint64_t, uint64_t> bytes_by_run;
  for (const auto& [number, segment] : missing_) {
    for (const auto& [run, bytes] : segment.needed) bytes_by_run[run] += bytes;
  }
  for (const auto& [run, bytes] : published_) {
    if (!bytes_by_run.contains(run)) index_.runs().AcceptMissing(RunId{run}, 0);
  }
  for (const auto& [run, bytes] : bytes_by_run) {
    index_.runs().AcceptMissing(RunId{run}, bytes);
  }
  published_ = std::move(bytes_by_run);
}

}  // namespace msitd::storage
