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
     "Start time of the daemon, as Unix time"},
    {kStorageState, kGauge, "msitd_storage_state",
     "1 for the current state of the storage, 0 for the others", "state"},
    {kOpenStreams, kGauge, "msitd_open_streams", "Open streams of producers"},
    {kStreamsMax, kGauge, "msitd_streams_max",
     "Maximum number of open streams"},
    {kIngestBytes, kCounter, "msitd_ingest_bytes_total",
     "Payload bytes that became durable"},
    {kIngestRecords, kCounter, "msitd_ingest_records_total",
     "Records that became durable"},
    {kIngestChunks, kCounter, "msitd_ingest_chunks_total",
     "Chunks that became durable"},
    {kAckLatency, kHistogram, "msitd_ack_seconds",
     "Time from the arrival of a chunk until it is durable and acknowledged"},
    {kInFlightBytes, kGauge, "msitd_in_flight_bytes",
     "Bytes of accepted chunks that are not durable yet"},
    {kIngestBufferBytes, kGauge, "msitd_ingest_buffer_bytes",
     "Memory used by chunks that arrived over gRPC"},
    {kRingBytes, kGauge, "msitd_ring_bytes",
     "Memory that ranks on the node share with the daemon"},
    {kRingUsedBytes, kGauge, "msitd_ring_used_bytes",
     "Shared memory that holds chunks that are not durable yet"},
    {kRefusedChunks, kCounter, "msitd_refused_chunks_total",
     "Rejected chunks, by the reason of the error", "reason"},
    {kRepeatedRecords, kCounter, "msitd_repeated_records_total",
     "Repeated records, with equal bytes or in conflict", "bytes"},
    {kClientTensors, kCounter, "msitd_client_tensors_total",
     "Tensors passed to clients (seen), and the outcome of those that were not "
     "stored whole",
     "outcome"},
    {kClientRecordingSeconds, kCounter, "msitd_client_recording_seconds_total",
     "Time that threads of ranks spent recording, summed over threads"},
    {kClientOpenSeconds, kCounter, "msitd_client_open_seconds_total",
     "Lifetime of the clients that report recording time, summed over clients"},
    {kCheckedDigests, kCounter, "msitd_checked_digests_total",
     "Checked summaries that ranks computed"},
    {kFalseDigests, kCounter, "msitd_false_digests_total",
     "Checked summaries that were wrong"},
    {kCallLatency, kHistogram, "msitd_call_seconds",
     "Time from the arrival of a unary call until its answer", "pool"},
    {kCalls, kCounter, "msitd_calls_total",
     "Unary calls, by the gRPC code of their answer", "code"},
    {kWaitingCalls, kGauge, "msitd_waiting_calls",
     "Calls that wait for a thread of their pool", "pool"},
    {kActiveComparisons, kGauge, "msitd_active_comparisons",
     "Comparisons that run, follow their runs or wait"},
    {kComparisonBytes, kGauge, "msitd_comparison_bytes",
     "Bytes of documents and rows of comparisons, before compression"},
    {kComparisonBytesMax, kGauge, "msitd_comparison_bytes_max",
     "Maximum of msitd_comparison_bytes; 0 means unlimited"},
    {kRemovedComparisons, kCounter, "msitd_removed_comparisons_total",
     "Comparisons removed because of newer ones of their owner, or because of "
     "their age"},
    {kRuns, kGauge, "msitd_runs", "Runs in the store"},
    {kPinnedRuns, kGauge, "msitd_pinned_runs", "Runs exempt from all limits"},
    {kPinnedBytes, kGauge, "msitd_pinned_bytes",
     "Bytes of tensors that pinned runs keep"},
    {kStoreBytes, kGauge, "msitd_store_bytes", "Disk space of the store",
     "part"},
    {kSegments, kGauge, "msitd_segments", "Segment files"},
    {kDiskFreeBytes, kGauge, "msitd_disk_free_bytes",
     "Free bytes in the file system of the store"},
    {kDiskFreeMinBytes, kGauge, "msitd_disk_free_min_bytes",
     "Free bytes below which bytes of tensors expire; 0 means never"},
    {kExpiredBytes, kCounter, "msitd_expired_bytes_total",
     "Bytes of tensors that expired"},
    {kExcessBytes, kGauge, "msitd_excess_bytes",
     "Disk space beyond the limits that cannot be freed"},
    {kMakingRoom, kGauge, "msitd_making_room",
     "1 while bytes expire because a disk limit is exceeded"},
    {kRetentionFailing, kGauge, "msitd_retention_failing",
     "1 if the last attempt to free space failed"},
    {kSharedBytes, kCounter, "msitd_shared_bytes_total",
     "Bytes freed because equal bytes are stored elsewhere"},
    {kCompactions, kCounter, "msitd_index_compactions_total",
     "Compactions of the index"},
    {kCompactionReadBytes, kCounter, "msitd_index_compaction_read_bytes_total",
     "Bytes read by compactions"},
    {kCompactionWrittenBytes, kCounter,
     "msitd_index_compaction_written_bytes_total",
     "Bytes written by compactions"},
    {kCompactionSeconds, kCounter, "msitd_index_compaction_seconds_total",
     "Duration of compactions"},
    {kCompactionPendingBytes, kGauge, "msitd_index_compaction_pending_bytes",
     "Estimated bytes that wait for a compaction"},
    {kCompactionPaused, kGauge, "msitd_index_compaction_paused",
     "1 while compactions wait for disk space"},
    {kRecoveredFrames, kGauge, "msitd_recovered_frames",
     "Frames read at the start of the daemon, by outcome", "outcome"},
    {kVerifiedFrames, kCounter, "msitd_verified_frames_total",
     "Frames that the verification compared with their hashes"},
    {kVerifiedBytes, kCounter, "msitd_verified_bytes_total",
     "Bytes of verified frames"},
    {kVerifyRemainingBytes, kGauge, "msitd_verify_remaining_bytes",
     "Bytes that the current round of the verification still has to read"},
    {kVerifyRoundEndTime, kGauge, "msitd_verify_round_end_time_seconds",
     "End of the last round of the verification, as Unix time; 0 if no round "
     "has ended"},
    {kVerifyFindings, kGauge, "msitd_verify_findings",
     "Places whose bytes differ from those that were written"},
    {kVerifyFailing, kGauge, "msitd_verify_failing",
     "1 if the last attempt to verify failed"},
    {kMissingSegments, kGauge, "msitd_missing_segments",
     "Segments that runs need and whose files are missing"},
    {kMissingBytes, kGauge, "msitd_missing_bytes",
     "Bytes of tensors in missing segments, which cannot be read"},
    {kCertificateExpiry, kGauge, "msitd_certificate_expiry_time_seconds",
     "End of the validity of the TLS certificate in use, as Unix time"},
    {kArchiveRuns, kGauge, "msitd_archive_runs", "Runs to archive, by state",
     "state"},
    {kArchiveSentBytes, kCounter, "msitd_archive_sent_bytes_total",
     "Bytes written to archives"},
    {kLogLines, kCounter, "msitd_log_lines_total", "Lines written to the log",
     "level"},
    {kLogSuppressedLines, kCounter, "msitd_log_suppressed_lines_total",
     "Log lines suppressed by the rate limit"},
    {kProcessCpuSeconds, kCounter, "process_cpu_seconds_total",
     "Processor time of the daemon"},
    {kProcessResidentBytes, kGauge, "process_resident_memory_bytes",
     "Resident memory, including the memory that ranks share"},
    {kProcessOpenFds, kGauge, "process_open_fds", "Open file descriptors"},
    {kProcessMaxFds, kGauge, "process_max_fds",
     "Maximum number of open file descriptors"},
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
