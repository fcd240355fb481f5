// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/node_metrics.h"

#include <dirent.h>
#include <sys/resource.h>

#include <memory>
#include <utility>

#include "daemon/config/command_line.h"
#include "daemon/log/log_sink.h"
#include "daemon/metrics/metric_catalog.h"
#include "daemon/server/file_budget.h"
#include "daemon/server/freed_memory.h"
#include "daemon/service/storage_state.h"
#include "protos/base/code_name.h"

namespace msitd::server {
namespace {

using metrics::MetricPage;
using enum metrics::MetricId;

constexpr double kNsPerS = 1e9;

double ToDouble(uint64_t n) { return static_cast<double>(n); }

static_assert(kStatusCodeNames.size() == service::TaskPool::kCodeCount);

void AddState(v1::NodeStatus::StorageState state, MetricPage& page) {
  using State = v1::NodeStatus;
  page.Add(kStorageState, "ok", state == State::OK ? 1 : 0);
  page.Add(kStorageState, "full", state == State::FULL ? 1 : 0);
  page.Add(kStorageState, "failed", state == State::FAILED ? 1 : 0);
  page.Add(kStorageState, "degraded", state == State::DEGRADED ? 1 : 0);
}

void AddArchives(const archive::ArchiveCounts& counts, MetricPage& page) {
  page.Add(kArchiveRuns, "pending", ToDouble(counts.pending_count));
  page.Add(kArchiveRuns, "running", ToDouble(counts.running_count));
  page.Add(kArchiveRuns, "archived", ToDouble(counts.archived_count));
  page.Add(kArchiveRuns, "failed", ToDouble(counts.failed_count));
  page.Add(kArchiveSentBytes, ToDouble(counts.sent_bytes));
}

void AddUpkeep(const storage::StoreStats& store, MetricPage& page) {
  const storage::CompactionStats& compaction = store.compaction;
  page.Add(kSharedBytes, ToDouble(store.shared_bytes));
  page.Add(kCompactions, ToDouble(compaction.count));
  page.Add(kCompactionReadBytes, ToDouble(compaction.read_bytes));
  page.Add(kCompactionWrittenBytes, ToDouble(compaction.written_bytes));
  page.Add(kCompactionSeconds, ToDouble(compaction.duration_ns) / kNsPerS);
  page.Add(kCompactionPendingBytes, ToDouble(compaction.pending_bytes));
  page.Add(kCompactionPaused, compaction.is_paused ? 1 : 0);
  page.Add(kRecoveredFrames, "read", ToDouble(store.recovered_frame_count));
  page.Add(kRecoveredFrames, "torn", ToDouble(store.torn_frame_count));
  page.Add(kRecoveredFrames, "corrupt", ToDouble(store.corrupt_frame_count));
  page.Add(kVerifiedFrames, ToDouble(store.verify.frame_count));
  page.Add(kVerifiedBytes, ToDouble(store.verify.bytes));
  page.Add(kVerifyRemainingBytes, ToDouble(store.verify.remaining_bytes));
  page.Add(kVerifyRoundEndTime,
           static_cast<double>(store.verify.round_end_ns) / kNsPerS);
  page.Add(kVerifyFindings, ToDouble(store.verify.finding_count));
}

void AddLog(MetricPage& page) {
  log::LogSink* const sink = log::Sink();
  const log::LogSink::Counts counts =
      sink == nullptr ? log::LogSink::Counts() : sink->Count();
  page.Add(kLogLines, "debug", ToDouble(counts.written[SPDLOG_LEVEL_DEBUG]));
  page.Add(kLogLines, "info", ToDouble(counts.written[SPDLOG_LEVEL_INFO]));
  page.Add(kLogLines, "warn", ToDouble(counts.written[SPDLOG_LEVEL_WARN]));
  page.Add(kLogLines, "error", ToDouble(counts.written[SPDLOG_LEVEL_ERROR]));
  page.Add(kLogSuppressedLines, ToDouble(counts.suppressed));
}

uint64_t OpenFileCount() {
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir("/proc/self/fd"));
  if (directory == nullptr) return 0;
  // ".", ".." and the descriptor of the directory itself do not count.
  constexpr uint64_t kOthers = 3;
  uint64_t count = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is of this call alone.
  while (::readdir(directory.get()) != nullptr) ++count;
  return count > kOthers ? count - kOthers : 0;
}

void AddProcess(MetricPage& page) {
  const FreedMemory::Sample sample = FreedMemory::Look();
  page.Add(kProcessCpuSeconds,
           std::chrono::duration<double>(sample.cpu).count());
  page.Add(kProcessResidentBytes, ToDouble(sample.resident_bytes));
  page.Add(kProcessOpenFds, ToDouble(OpenFileCount()));
  page.Add(kProcessMaxFds, ToDouble(FileLimit()));
}

}  // namespace

void NodeMetrics::AddIngest(MetricPage& page) const {
  const ingest::IngestStats ingest = parts_.pipeline.Stats();
  const storage::StoreStats store = parts_.store.Stats();
  AddState(service::StorageStateOf(ingest.storage_state, store), page);
  page.Add(kOpenStreams, ToDouble(ingest.open_stream_count));
  page.Add(kStreamsMax, static_cast<double>(parts_.streams_max));
  page.Add(kIngestBytes, ToDouble(store.committed_bytes));
  page.Add(kIngestRecords, ToDouble(store.committed_record_count));
  page.Add(kIngestChunks, ToDouble(store.committed_chunk_count));
  page.Add(kAckLatency, parts_.pipeline.acks().Read());
  page.Add(kInFlightBytes, ToDouble(ingest.in_flight_bytes));
  page.Add(kIngestBufferBytes, ToDouble(parts_.buffers.lent_bytes()));
  page.Add(kRingBytes, ToDouble(ingest.ring_bytes));
  page.Add(kRingUsedBytes, ToDouble(ingest.ring_used_bytes));
  for (const auto& [reason, count] : ingest.refused_by_reason) {
    page.Add(kRefusedChunks, reason, ToDouble(count));
  }
  page.Add(kRepeatedRecords, "equal", ToDouble(store.duplicate_count));
  page.Add(kRepeatedRecords, "other", ToDouble(store.conflict_count));
  const StreamCoverage& coverage = ingest.coverage;
  page.Add(kClientTensors, "seen", ToDouble(coverage.seen_count));
  page.Add(kClientTensors, "filtered", ToDouble(coverage.filtered_count));
  page.Add(kClientTensors, "dropped", ToDouble(coverage.dropped_count));
  page.Add(kClientTensors, "truncated", ToDouble(coverage.truncated_count));
  page.Add(kClientTensors, "degraded", ToDouble(coverage.degraded_count));
  page.Add(kClientRecordingSeconds, ToDouble(coverage.recording_ns) / kNsPerS);
  page.Add(kClientOpenSeconds, ToDouble(coverage.open_ns) / kNsPerS);
  page.Add(kCheckedDigests, ToDouble(store.checked_digest_count));
  page.Add(kFalseDigests, ToDouble(store.false_digest_count));
}

void NodeMetrics::AddCalls(MetricPage& page) const {
  const std::pair<const char*, service::TaskPool::Counted> pools[] = {
      {"control", parts_.pools.control.Count()},
      {"query", parts_.pools.queries.Count()},
      {"reduction", parts_.pools.reductions.Count()}};
  for (const auto& [name, counted] : pools) {
    page.Add(kCallLatency, name, counted.latencies);
  }
  for (size_t code = 0; code < kStatusCodeNames.size(); ++code) {
    uint64_t count = 0;
    for (const auto& [name, counted] : pools) {
      count += counted.ended_by_code[code];
    }
    if (count > 0 || code == 0) {
      page.Add(kCalls, kStatusCodeNames[code], ToDouble(count));
    }
  }
  for (const auto& [name, counted] : pools) {
    page.Add(kWaitingCalls, name, ToDouble(counted.waiting_count));
  }
  page.Add(kActiveComparisons,
           static_cast<double>(parts_.active_comparisons()));
  const compare::BoundedComparisons::Stats stored = parts_.stored_comparisons();
  page.Add(kComparisonBytes, ToDouble(stored.bytes));
  page.Add(kComparisonBytesMax, ToDouble(stored.bytes_max));
  page.Add(kRemovedComparisons, ToDouble(stored.removed_count));
}

void NodeMetrics::AddStore(const storage::StoreStats& store,
                           MetricPage& page) const {
  page.Add(kRuns, ToDouble(store.run_count));
  page.Add(kPinnedRuns, ToDouble(store.pinned_run_count));
  page.Add(kPinnedBytes, ToDouble(store.pinned_bytes));
  page.Add(kStoreBytes, "segments", ToDouble(store.segment_bytes));
  page.Add(kStoreBytes, "index", ToDouble(store.index_bytes));
  page.Add(kSegments, ToDouble(store.segment_count));
  page.Add(kDiskFreeBytes, ToDouble(store.disk_free_bytes));
  page.Add(kDiskFreeMinBytes,
           static_cast<double>(parts_.disk_free_min_bytes()));
  page.Add(kExpiredBytes, ToDouble(store.expired_bytes));
  page.Add(kExcessBytes, ToDouble(store.excess_bytes));
  page.Add(kMakingRoom, store.is_making_room ? 1 : 0);
  page.Add(kRetentionFailing, parts_.retention_error().empty() ? 0 : 1);
  AddUpkeep(store, page);
  page.Add(kVerifyFailing, parts_.verify_error().empty() ? 0 : 1);
  page.Add(kMissingSegments, ToDouble(store.missing.count));
  page.Add(kMissingBytes, ToDouble(store.missing.bytes));
}

std::string NodeMetrics::Text() const {
  MetricPage page;
  page.Add(kBuildInfo, config::Version(), 1);
  page.Add(kStartTime,
           std::chrono::duration<double>(start_.time_since_epoch()).count());
  AddIngest(page);
  AddCalls(page);
  AddStore(parts_.store.Stats(), page);
  if (const int64_t last_s = parts_.certificate_last_s(); last_s != 0) {
    page.Add(kCertificateExpiry, static_cast<double>(last_s));
  }
  AddArchives(parts_.archives(), page);
  AddLog(page);
  AddProcess(page);
  return page.text();
}

}  // namespace msitd::server
