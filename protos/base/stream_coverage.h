// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace msitd {

// How many tensors were handed to a stream since it was first opened, how many
// of them were not stored as requested, and how much time recording took. These
// are totals over all connections of the stream, so that reporting them again
// changes nothing.
struct StreamCoverage {
  static constexpr uint64_t kCountMax = INT64_MAX;

  uint64_t seen_count = 0;       // All tensors handed to the stream, including
                                 // those of the other counts.
  uint64_t filtered_count = 0;   // Tensors that the capture policy does not
                                 // select.
  uint64_t dropped_count = 0;    // Tensors given up before any part was stored.
  uint64_t truncated_count = 0;  // Tensors given up after some parts were
                                 // stored.
  // Tensors stored as summary and hash only, although requested with bytes.
  uint64_t degraded_count = 0;
  // Time that threads of the host spent recording, summed over threads, and the
  // lifetime of the client at that moment. Both are 0 from clients that do not
  // measure it.
  uint64_t recording_ns = 0;
  uint64_t open_ns = 0;

  friend bool operator==(const StreamCoverage&,
                         const StreamCoverage&) = default;
};

// False for counts that no stream can have.
constexpr bool IsSound(const StreamCoverage& coverage) {
  constexpr uint64_t kMax = StreamCoverage::kCountMax;
  return coverage.seen_count <= kMax && coverage.filtered_count <= kMax &&
         coverage.dropped_count <= kMax && coverage.truncated_count <= kMax &&
         coverage.degraded_count <= kMax && coverage.recording_ns <= kMax &&
         coverage.open_ns <= kMax;
}

// Returns the totals of two streams together; each sum is capped at kCountMax.
constexpr StreamCoverage Sum(const StreamCoverage& a, const StreamCoverage& b) {
  constexpr uint64_t kMax = StreamCoverage::kCountMax;
  return {std::min(a.seen_count + b.seen_count, kMax),
          std::min(a.filtered_count + b.filtered_count, kMax),
          std::min(a.dropped_count + b.dropped_count, kMax),
          std::min(a.truncated_count + b.truncated_count, kMax),
          std::min(a.degraded_count + b.degraded_count, kMax),
          std::min(a.recording_ns + b.recording_ns, kMax),
          std::min(a.open_ns + b.open_ns, kMax)};
}

// Returns the newer of two reports of one stream. Totals never decrease, so
// this is the maximum of each.
constexpr StreamCoverage Newer(const StreamCoverage& a,
                               const StreamCoverage& b) {
  return {std::max(a.seen_count, b.seen_count),
          std::max(a.filtered_count, b.filtered_count),
          std::max(a.dropped_count, b.dropped_count),
          std::max(a.truncated_count, b.truncated_count),
          std::max(a.degraded_count, b.degraded_count),
          std::max(a.recording_ns, b.recording_ns),
          std::max(a.open_ns, b.open_ns)};
}

// Returns the increase of each total between two reports of one stream, of
// which `after` is the newer one.
constexpr StreamCoverage Rise(const StreamCoverage& before,
                              const StreamCoverage& after) {
  return {after.seen_count - before.seen_count,
          after.filtered_count - before.filtered_count,
          after.dropped_count - before.dropped_count,
          after.truncated_count - before.truncated_count,
          after.degraded_count - before.degraded_count,
          after.recording_ns - before.recording_ns,
          after.open_ns - before.open_ns};
}

}  // namespace msitd
