// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protos/base/stream_coverage.h"

namespace msitd::libmsit {

// The contents of a chunk, as far as they are needed for counting.
struct ChunkContents {
  // A tensor with one part, or one part of a tensor with several.
  struct PartFacts {
    uint64_t sequence = 0;
    uint64_t tensor_bytes = 0;  // 0 if no bytes are sent.
    bool is_first = false;
    bool is_last = false;
    bool is_degraded = false;
  };

  // Records that are completely in the chunk, and the number of their bytes
  // that are sent.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  // How many of them are kept as summaries although their bytes are requested.
  uint64_t degraded_count = 0;
  // Parts of tensors with several parts.
  std::vector<PartFacts> parts;

  // Does not fail if `parts` has room for another entry.
  void Add(const PartFacts& part);
  // Reverses Add.
  void Remove(const PartFacts& part);
};

// Counts the outcome of each record exactly once. Thread-compatible.
//
// A tensor with several parts is acknowledged with its last part, and only if
// none of its parts was dropped. It is dropped if its first part is given up,
// and truncated if only a later part is. It is counted as degraded when it is
// acknowledged, so totals never decrease.
class DeliveryLedger {
 public:
  // Maximum number of broken tensors that are remembered. A tensor is broken if
  // one of its parts was dropped. Beyond the maximum, one of the oldest may be
  // counted twice if its parts are dropped at different times.
  static constexpr size_t kBrokenMax = 4096;

  void Record(uint64_t bytes);
  // Counts a record that has the bytes of another record, and is sent without
  // them.
  void RecordAlias(uint64_t bytes);

  // Sets the total of records that the capture policy did not request, which
  // are counted elsewhere. Never decreases.
  void SetFiltered(uint64_t count);

  // Counts a record that was not accepted at all.
  void Drop();

  // Uncounts a recorded record whose parts have all been removed from their
  // chunks.
  void TakeBack();

  // Counts a record that was given up after some of its parts had been
  // accepted.
  void BreakOff(uint64_t sequence);

  void CountInvalid() { ++invalid_count_; }

  // Returns whether a part of the record was dropped, so that its other parts
  // are useless.
  bool IsBroken(uint64_t sequence) const { return broken_.contains(sequence); }

  // Chunks must be acknowledged in order. A chunk may be dropped before earlier
  // ones.
  void Acknowledge(const ChunkContents& contents);
  void DropChunk(const ChunkContents& contents);

  // Counts that must be reported to the daemon. TakeReport returns them and
  // clears has_unreported. A report may be lost with its connection, so
  // ReportAgain must be called for each new connection.
  bool has_unreported() const { return reported_ != coverage_; }
  StreamCoverage TakeReport();
  void ReportAgain() { reported_.reset(); }

  uint64_t recorded_count() const { return recorded_count_; }
  uint64_t recorded_bytes() const { return recorded_bytes_; }
  uint64_t aliased_count() const { return aliased_count_; }
  uint64_t aliased_bytes() const { return aliased_bytes_; }
  uint64_t acknowledged_count() const { return acknowledged_count_; }
  uint64_t acknowledged_bytes() const { return acknowledged_bytes_; }
  const StreamCoverage& coverage() const { return coverage_; }
  uint64_t invalid_count() const { return invalid_count_; }

 private:
  // Returns false if `sequence` was already broken.
  bool Break(uint64_t sequence);

  uint64_t recorded_count_ = 0;
  uint64_t recorded_bytes_ = 0;
  uint64_t aliased_count_ = 0;
  uint64_t aliased_bytes_ = 0;
  uint64_t acknowledged_count_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  StreamCoverage coverage_;
  std::optional<StreamCoverage> reported_;
  uint64_t invalid_count_ = 0;
  std::set<uint64_t> broken_;
};

}  // namespace msitd::libmsit
