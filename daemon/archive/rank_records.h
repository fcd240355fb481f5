// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"

namespace msitd::archive {

// A record of a run: one part of an entry.
struct PartRecord {
  const storage::TensorInfo* entry = nullptr;
  size_t part = 0;
  std::span<const std::byte> bytes;  // Empty if the run does not have them.
};

// The records of one rank of a run, in the order in which they were received,
// as far as the order is known: by token, and within a token by the location of
// their parts. Thread-compatible; the run must outlive it.
//
// A run may have 10^5 ranks, so a rank that waits for its turn can release its
// memory. It remembers its position and later reads the entries of its token
// again.
class RankRecords {
 public:
  // Number of bytes to read at once; a part may exceed it.
  static constexpr uint64_t kWindowBytes = uint64_t{2} << 20;

  RankRecords(storage::RunReader& run, int32_t rank) : run_(run), rank_(rank) {}

  int32_t rank() const { return rank_; }

  // Advances to the next record. Returns false after the last one.
  absl::StatusOr<bool> Next(storage::StopCheck stop);
  // Where the current record was received.
  const storage::PartPlace& place() const { return place_; }
  // Returns the current record and its bytes, which are valid until Next.
  // `entry` and `part` are set even if DATA_LOSS is returned.
  absl::Status Read(PartRecord& out, storage::StopCheck stop);
  // Releases memory until the next call of Next or Read.
  void Rest();
  // Number of records that were skipped because they cannot be read.
  uint64_t lost_count() const;

 private:
  struct Item {
    storage::PartPlace place;
    bool is_alias = false;
    uint64_t sequence = 0;
    size_t entry = 0;
    size_t part = 0;
  };

  // Reads the entries of the next token.
  absl::StatusOr<bool> ReadToken(storage::StopCheck stop);
  // After Rest, reads the entries of the current token again.
  absl::Status Return(storage::StopCheck stop);
  // Sorts the records of entries_.
  void SortItems();
  Selector AllOfRank() const;
  // Starts to read the bytes of the records, beginning with the current one.
  void ReadAhead();
  bool HasBytes(const Item& item) const;

  storage::RunReader& run_;
  const int32_t rank_;
  std::unique_ptr<storage::TensorScan> scan_;
  std::optional<storage::TensorInfo> pending_;  // Of the next token.
  std::vector<storage::TensorInfo> entries_;    // Of the token.
  std::vector<Item> items_;
  size_t item_ = 0;
  storage::PartPlace place_;
  bool is_begun_ = false;
  bool rests_ = false;
  std::string scan_position_;  // Of a resting rank.
  std::string device_;         // Of the token.
  int64_t token_ = 0;
  size_t item_count_ = 0;
  uint64_t lost_count_ = 0;  // Of scans that are finished.
  std::vector<storage::PartInfo> ahead_;
  std::vector<size_t> ahead_items_;
  AlignedBuffer buffer_;
  std::unique_ptr<storage::PartBatch> batch_;
};

}  // namespace msitd::archive
