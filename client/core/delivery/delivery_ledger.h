// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protos/base/stream_coverage.h"

namespace msitd::client {

// Which tensors a chunk holds, as far as counting goes.
struct ChunkContents {
  // One part of a tensor that has several.
  struct Part {
    uint64_t sequence = 0;
    uint64_t tensor_bytes = 0;
    bool is_first = false;
    bool is_last = false;
    bool is_degraded = false;
  };

  // Tensors that lie wholly in the chunk, and their bytes.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  // Those of them that are kept as summaries, though their bytes are asked for.
  uint64_t degraded_count = 0;
  std::vector<Part> parts;
};

// Counts what became of each record, once: a tensor of several parts is
// acknowledged with its last part, and only if none of them was dropped; it is
// truncated if it was given up behind its first part. It counts as degraded
// when it is acknowledged, so that no total decreases. Thread-compatible.
class DeliveryLedger {
 public:
  // Broken tensors that are remembered; with more, one of the oldest whose
  // parts are dropped at different times may count twice.
  static constexpr size_t kBrokenMax = 4096;

  void Record(uint64_t bytes);

  // So many records the capture policy did not ask for, of all so far: they are
  // counted elsewhere. Never less than before.
  void SetFiltered(uint64_t count);

  // A record that was not taken at all.
  void Drop();

  // A record that was given up after some of its parts had been taken.
  void BreakOff(uint64_t sequence);

  void CountInvalid() { ++invalid_count_; }

  // True for a record some of whose parts were dropped: there is no use in
  // taking the others.
  bool IsBroken(uint64_t sequence) const { return broken_.contains(sequence); }

  // Acknowledged chunks come in their order. One may be dropped before those in
  // front of it.
  void Acknowledge(const ChunkContents& contents);
  void DropChunk(const ChunkContents& contents);

  // What the daemon is to be told: has_news until it is taken. It may not have
  // arrived if the connection is lost, so the next one is told all again.
  bool has_news() const { return told_ != coverage_; }
  StreamCoverage TakeNews();
  void TellAgain() { told_.reset(); }

  uint64_t recorded_count() const { return recorded_count_; }
  uint64_t recorded_bytes() const { return recorded_bytes_; }
  uint64_t acknowledged_count() const { return acknowledged_count_; }
  uint64_t acknowledged_bytes() const { return acknowledged_bytes_; }
  const StreamCoverage& coverage() const { return coverage_; }
  uint64_t invalid_count() const { return invalid_count_; }

 private:
  // Returns false if `sequence` was broken before.
  bool Break(uint64_t sequence);

  uint64_t recorded_count_ = 0;
  uint64_t recorded_bytes_ = 0;
  uint64_t acknowledged_count_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  StreamCoverage coverage_;
  std::optional<StreamCoverage> told_;
  uint64_t invalid_count_ = 0;
  std::set<uint64_t> broken_;
};

}  // namespace msitd::client
