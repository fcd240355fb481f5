// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace msitd::metrics {

// All metrics of the daemon, in the order in which the page lists them.
enum class MetricId : uint8_t {
  kBuildInfo,
  kStartTime,
  kStorageState,
  kOpenStreams,
  kStreamsMax,
  kIngestBytes,
  kIngestRecords,
  kIngestChunks,
  kAckLatency,
  kInFlightBytes,
  kIngestBufferBytes,
  kRingBytes,
  kRingUsedBytes,
  kRefusedChunks,
  kRepeatedRecords,
  kClientTensors,
  kClientRecordingSeconds,
  kClientOpenSeconds,
  kCheckedDigests,
  kFalseDigests,
  kCallLatency,
  kCalls,
  kWaitingCalls,
  kActiveComparisons,
  kComparisonBytes,
  kComparisonBytesMax,
  kRemovedComparisons,
  kRuns,
  kPinnedRuns,
  kPinnedBytes,
  kStoreBytes,
  kSegments,
  kDiskFreeBytes,
  kDiskFreeMinBytes,
  kExpiredBytes,
  kExcessBytes,
  kMakingRoom,
  kRetentionFailing,
  kSharedBytes,
  kCompactions,
  kCompactionReadBytes,
  kCompactionWrittenBytes,
  kCompactionSeconds,
  kCompactionPendingBytes,
  kCompactionPaused,
  kRecoveredFrames,
  kVerifiedFrames,
  kVerifiedBytes,
  kVerifyRemainingBytes,
  kVerifyRoundEndTime,
  kVerifyFindings,
  kVerifyFailing,
  kMissingSegments,
  kMissingBytes,
  kCertificateExpiry,
  kArchiveRuns,
  kArchiveSentBytes,
  kLogLines,
  kLogSuppressedLines,
  kProcessCpuSeconds,
  kProcessResidentBytes,
  kProcessOpenFds,
  kProcessMaxFds,
};

enum class MetricKind : uint8_t { kCounter, kGauge, kHistogram };

struct MetricInfo {
  MetricId id;
  MetricKind kind;
  std::string_view name;
  std::string_view help;
  // Name of the label that distinguishes the values of the metric; empty if the
  // metric has a single value.
  std::string_view label = {};
};

// Indexed by MetricId.
std::span<const MetricInfo> MetricCatalog();
const MetricInfo& InfoOf(MetricId id);

// Returns "counter", "gauge" or "histogram".
std::string_view KindName(MetricKind kind);

}  // namespace msitd::metrics
