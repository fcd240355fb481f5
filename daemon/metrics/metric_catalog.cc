// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/metric_catalog.h"

#include <cstddef>

namespace msitd::metrics {
namespace {

using enum MetricId;
using enum MetricKind;

// Counters start at zero when the daemon starts. Units are seconds and bytes,
// as is customary in Prometheus.
constexpr MetricInfo kCatalog[] = {
    {kBuildInfo, kGauge, "msitd_build_info", "Always 1; the version is a label",
     "version"},
    {kStartTime, kGauge, "msitd_start_time_seconds",
     "When the daemon started, since the Unix epoch"},
    {kStorageState, kGauge, "msitd_storage_state",
     "1 for the state that the storage is in, 0 for the others", "state"},
    {kOpenStreams, kGauge, "msitd_open_streams", "Streams of producers"},
    {kStreamsMax, kGauge, "msitd_streams_max",
     "Streams that may be open at a time"},
    {kIngestBytes, kCounter, "msitd_ingest_bytes_total",
     "Payload that became durable"},
    {kIngestRecords, kCounter, "msitd_ingest_records_total",
     "Records that became durable"},
    {kIngestChunks, kCounter, "msitd_ingest_chunks_total",
     "Chunks that became durable"},
    {kAckLatency, kHistogram, "msitd_ack_seconds",
     "From the arrival of a chunk until it is durable and acknowledged"},
    {kInFlightBytes, kGauge, "msitd_in_flight_bytes",
     "Chunks that the daemon has taken and that are not durable yet"},
    {kIngestBufferBytes, kGauge, "msitd_ingest_buffer_bytes",
     "Memory lent to chunks that came over gRPC"},
    {kRingBytes, kGauge, "msitd_ring_bytes",
     "Memory that ranks of the node share"},
    {kRingUsedBytes, kGauge, "msitd_ring_used_bytes",
     "Of it, chunks that are not durable yet"},
    {kRefusedChunks, kCounter, "msitd_refused_chunks_total",
     "Chunks that were refused, by the reason of the error", "reason"},
    {kRepeatedRecords, kCounter, "msitd_repeated_records_total",
     "Records that came again, with equal bytes or in conflict", "bytes"},
    {kClientTensors, kCounter, "msitd_client_tensors_total",
     "Tensors that clients were handed (seen), and what became of those that "
     "did not come through whole",
     "outcome"},
    {kClientRecordingSeconds, kCounter, "msitd_client_recording_seconds_total",
     "Time that threads of ranks spent recording, added up over threads"},
    {kClientOpenSeconds, kCounter, "msitd_client_open_seconds_total",
     "How long the clients that told this existed meanwhile, added up"},
    {kCheckedDigests, kCounter, "msitd_checked_digests_total",
     "Summaries that ranks made and that were checked"},
    {kFalseDigests, kCounter, "msitd_false_digests_total",
     "Of these, wrong ones"},
    {kCallLatency, kHistogram, "msitd_call_seconds",
     "From the arrival of a unary call until its answer", "pool"},
    {kCalls, kCounter, "msitd_calls_total",
     "Unary calls by the gRPC code of their answer", "code"},
    {kWaitingCalls, kGauge, "msitd_waiting_calls",
     "Calls that wait for a thread of their pool", "pool"},
    {kActiveComparisons, kGauge, "msitd_active_comparisons",
     "Comparisons that run, follow their runs or wait"},
    {kComparisonBytes, kGauge, "msitd_comparison_bytes",
     "Bytes of documents and rows of comparisons, before compression"},
    {kComparisonBytesMax, kGauge, "msitd_comparison_bytes_max",
     "How many there may be; 0 if there is no limit"},
    {kRemovedComparisons, kCounter, "msitd_removed_comparisons_total",
     "Comparisons removed for newer ones of their owner, or for their age"},
    {kRuns, kGauge, "msitd_runs", "Runs in the store"},
    {kPinnedRuns, kGauge, "msitd_pinned_runs",
     "Runs of which nothing is given up"},
    {kPinnedBytes, kGauge, "msitd_pinned_bytes",
     "Bytes of tensors that pinned runs keep"},
    {kStoreBytes, kGauge, "msitd_store_bytes", "Disk that the store takes",
     "part"},
    {kSegments, kGauge, "msitd_segments", "Segment files"},
    {kDiskFreeBytes, kGauge, "msitd_disk_free_bytes",
     "Bytes that the file system of the store has left"},
    {kExpiredBytes, kCounter, "msitd_expired_bytes_total",
     "Bytes of tensors that were given up"},
    {kExcessBytes, kGauge, "msitd_excess_bytes",
     "Disk taken beyond the limits that cannot be given up"},
    {kMakingRoom, kGauge, "msitd_making_room",
     "1 while bytes are given up because the disk passed a limit"},
    {kRetentionFailing, kGauge, "msitd_retention_failing",
     "1 if room could not be made the last time"},
    {kSharedBytes, kCounter, "msitd_shared_bytes_total",
     "Bytes given back because equal bytes are kept elsewhere"},
    {kCompactions, kCounter, "msitd_index_compactions_total",
     "Compactions of the index"},
    {kCompactionReadBytes, kCounter, "msitd_index_compaction_read_bytes_total",
     "Bytes that they read"},
    {kCompactionWrittenBytes, kCounter,
     "msitd_index_compaction_written_bytes_total", "Bytes that they wrote"},
    {kCompactionSeconds, kCounter, "msitd_index_compaction_seconds_total",
     "Time that they took"},
    {kCompactionPendingBytes, kGauge, "msitd_index_compaction_pending_bytes",
     "Bytes that wait for a compaction, by estimate"},
    {kCompactionPaused, kGauge, "msitd_index_compaction_paused",
     "1 while compactions wait for room on the disk"},
    {kRecoveredFrames, kGauge, "msitd_recovered_frames",
     "Frames that the start read back, by what became of them", "outcome"},
    {kVerifiedFrames, kCounter, "msitd_verified_frames_total",
     "Frames that the check in the background compared with their hashes"},
    {kVerifiedBytes, kCounter, "msitd_verified_bytes_total", "Bytes in them"},
    {kVerifyRemainingBytes, kGauge, "msitd_verify_remaining_bytes",
     "Bytes that the round under way still has to read"},
    {kVerifyRoundEndTime, kGauge, "msitd_verify_round_end_time_seconds",
     "When the last round ended, since the Unix epoch; 0 if none has"},
    {kVerifyFindings, kGauge, "msitd_verify_findings",
     "Places that do not hold what was written"},
    {kVerifyFailing, kGauge, "msitd_verify_failing",
     "1 if nothing could be checked the last time"},
    {kMissingSegments, kGauge, "msitd_missing_segments",
     "Segments whose files are not there although runs need them"},
    {kMissingBytes, kGauge, "msitd_missing_bytes",
     "Bytes of tensors in them, which cannot be read"},
    {kArchiveRuns, kGauge, "msitd_archive_runs",
     "Runs that are to be archived, by what became of them", "state"},
    {kArchiveSentBytes, kCounter, "msitd_archive_sent_bytes_total",
     "Bytes written into archives"},
    {kLogLines, kCounter, "msitd_log_lines_total", "Lines written to the log",
     "level"},
    {kLogSuppressedLines, kCounter, "msitd_log_suppressed_lines_total",
     "Lines that were too many for the log"},
    {kProcessCpuSeconds, kCounter, "process_cpu_seconds_total",
     "Processor time of the daemon"},
    {kProcessResidentBytes, kGauge, "process_resident_memory_bytes",
     "Resident memory, that which ranks share included"},
    {kProcessOpenFds, kGauge, "process_open_fds", "Open file descriptors"},
    {kProcessMaxFds, kGauge, "process_max_fds", "Limit of file descriptors"},
};

constexpr bool IsInOrder() {
  size_t place = 0;
  for (const MetricInfo& info : kCatalog) {
    if (static_cast<size_t>(info.id) != place++) return false;
  }
  return place == static_cast<size_t>(kProcessMaxFds) + 1;
}
static_assert(IsInOrder());

}  // namespace

std::span<const MetricInfo> MetricCatalog() { return kCatalog; }

const MetricInfo& InfoOf(MetricId id) {
  return kCatalog[static_cast<size_t>(id)];
}

std::string_view KindName(MetricKind kind) {
  switch (kind) {
    case kCounter:
      return "counter";
    case kGauge:
      return "gauge";
    case kHistogram:
      break;
  }
  return "histogram";
}

}  // namespace msitd::metrics
