// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protos/base/stream_coverage.h"

namespace msitd::client {

// What a chunk holds, as far as counting goes.
struct ChunkContents {
  // A tensor, or one part of a tensor that has several.
  struct Part {
    uint64_t sequence = 0;
    uint64_t tensor_bytes = 0;  // 0 if none are sent.
    bool is_first = false;
    bool is_last = false;
    bool is_degraded = false;
  };

  // Records that lie wholly in the chunk, and the bytes that are sent of them.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  // How many of them are kept as summaries although their bytes are asked for.
  uint64_t degraded_count = 0;
  // Those of tensors that have several.
  std::vector<Part> parts;

  // Does not fail if `parts` has room for one more.
  void Add(const Part& part);
  // Takes back what Add did.
  void Remove(const Part& part);
};

// Counts what became of each record, once. Thread-compatible.
//
// A tensor of several parts is acknowledged with its last part, and only if
// none of its parts was dropped. It is dropped if its first part is given up,
// truncated if only a later part is. It counts as degraded when it is
// acknowledged, so no total ever decreases.
class DeliveryLedger {
 public:
  // Most broken tensors remembered, that is, tensors of which a part was
  // dropped. Beyond it one of the oldest may count twice, if its parts are
  // dropped at different times.
  static constexpr size_t kBrokenMax = 4096;

  void Record(uint64_t bytes);
  // A record whose bytes are those of another one, and are not sent.
  void RecordAlias(uint64_t bytes);

  // Sets the number of records so far that the capture policy did not ask for;
  // they are counted elsewhere. Never decreases.
  void SetFiltered(uint64_t count);

  // A record that was not taken at all.
  void Drop();

  // A record that counts as recorded, and none of whose parts is in a chunk any
  // more.
  void TakeBack();

  // A record that was given up after some of its parts had been taken.
  void BreakOff(uint64_t sequence);

  void CountInvalid() { ++invalid_count_; }

  // True if a part of the record was dropped: taking the others is of no use.
  bool IsBroken(uint64_t sequence) const { return broken_.contains(sequence); }

  // Acknowledged chunks come in order. A chunk may be dropped before those in
  // front of it.
  void Acknowledge(const ChunkContents& contents);
  void DropChunk(const ChunkContents& contents);

  // Counts that the daemon has to be told. TakeReport returns them and clears
  // has_unreported. They may be lost with their connection, so the next
  // connection calls ReportAgain.
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
  // Returns false if `sequence` was broken before.
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

}  // namespace msitd::client
