// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/log_survey.h"

#include <algorithm>
#include <memory>

#include "protos/status/status.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {

uint64_t MostFrequentStoreId(const std::vector<SegmentFile>& files) {
  std::map<uint64_t, size_t> counts;
  uint64_t out = 0;
  for (const SegmentFile& file : files) {
    if (!file.header.has_value()) continue;
    const uint64_t id = file.header->store_id;
    if (++counts[id] > counts[out] || out == 0) out = id;
  }
  return out;
}

absl::StatusOr<LoggedRuns> SurveyLog(Env& env,
                                     const std::vector<SegmentFile>& files,
                                     uint64_t store_id) {
  LoggedRuns out;
  const std::map<uint64_t, uint64_t> ends = KnownEnds(files, store_id);
  for (const SegmentFile& file : files) {
    if (file.IsForeignTo(store_id)) continue;
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> reader,
                           env.OpenForRead(file.path, /*direct=*/false));
    SegmentScanner::ScanRange place;
    place.store_id = store_id;
    place.segment = file.id;
    place.end_bytes = file.size_bytes;
    if (const auto it = ends.find(ToNumber(file.id)); it != ends.end()) {
      place.end_bytes = std::min(place.end_bytes, it->second);
    }
    SegmentScanner scanner(*reader, place);
    while (true) {
      absl::StatusOr<ScanStep> step = scanner.Next();
      if (!step.ok()) return Annotate(step.status(), "read " + file.path);
      if (!step->frame.has_value()) break;
      const chunk::ChunkHeader& header = step->frame->chunk.header();
      LoggedRun& run = out[header.run_id];
      if (run.frame_count++ > 0) continue;
      run.name = step->frame->chunk.run();
      run.first_receive_ns = header.receive_time_ns;
      run.first = {header.segment_id, step->frame->offset};
    }
  }
  return out;
}

}  // namespace msitd::storage
