// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace msitd::client {

// Which tensors a chunk holds, as far as counting goes.
struct ChunkContents {
  // One part of a tensor that has several.
  struct Part {
    uint64_t sequence = 0;
    uint64_t tensor_bytes = 0;
    bool is_last = false;
  };

  // Tensors that lie wholly in the chunk, and their bytes.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  std::vector<Part> parts;
};

// Counts what became of each record, once: a tensor of several parts is
// acknowledged with its last part, and only if none of them was dropped.
// Thread-compatible.
class DeliveryLedger {
 public:
  // Broken tensors that are remembered; with more, one whose parts are dropped
  // at different times may count as dropped twice.
  static constexpr size_t kBrokenMax = 4096;

  void Record(uint64_t bytes);

  // A record that was not taken at all.
  void Drop() { ++dropped_count_; }

  // A record that was given up after some of its parts had been taken.
  void BreakOff(uint64_t sequence);

  void CountInvalid() { ++invalid_count_; }

  // Call these in the order of the chunks.
  void Acknowledge(const ChunkContents& contents);
  void DropChunk(const ChunkContents& contents);

  // Returns the records dropped since the last call.
  uint64_t TakeUnreportedDrops();
  bool has_unreported_drops() const {
    return dropped_count_ != reported_drop_count_;
  }

  uint64_t recorded_count() const { return recorded_count_; }
  uint64_t recorded_bytes() const { return recorded_bytes_; }
  uint64_t acknowledged_count() const { return acknowledged_count_; }
  uint64_t acknowledged_bytes() const { return acknowledged_bytes_; }
  uint64_t dropped_count() const { return dropped_count_; }
  uint64_t invalid_count() const { return invalid_count_; }

 private:
  // Returns false if `sequence` was broken before.
  bool Break(uint64_t sequence);

  uint64_t recorded_count_ = 0;
  uint64_t recorded_bytes_ = 0;
  uint64_t acknowledged_count_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  uint64_t dropped_count_ = 0;
  uint64_t reported_drop_count_ = 0;
  uint64_t invalid_count_ = 0;
  std::unordered_set<uint64_t> broken_;
};

}  // namespace msitd::client
