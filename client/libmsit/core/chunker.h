// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/libmsit/core/delivery/delivery_queue.h"
#include "client/libmsit/core/delivery/slot_pool.h"
#include "client/libmsit/core/tensor_view.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::libmsit {

// How much of a record is kept.
struct KeptLevel {
  capture::Level level = capture::Level::kFull;
  // True if the capture policy requests more than `level`.
  bool is_degraded = false;
  // True if the token of the record is a number of the run, which does not move
  // if the stream begins at a later token.
  bool is_token_fixed = false;
};

// Properties that all chunks of a stream share.
struct ChunkIdentity {
  std::string run;
  int32_t rank = 0;
  uint64_t stream_id = 0;
};

// Collects records in chunks. All records of a chunk are kept at the same
// level, so there is at most one open chunk per level. A chunk is sealed into
// the delivery queue when the next record does not fit, or by Seal.
//
// Thread-compatible: the client calls it with its lock held. Payload is written
// without that lock; see Place.
class Chunker {
 public:
  // `pool` and `queue` must outlive the chunker. With `parts_tokens` a chunk
  // contains records of only one token.
  Chunker(ChunkIdentity identity, bool parts_tokens, SlotPool& pool,
          DeliveryQueue& queue)
      : identity_(std::move(identity)),
        parts_tokens_(parts_tokens),
        pool_(pool),
        queue_(queue) {}

  // Makes future chunks name `run`. Must be called while there is no chunk yet.
  void SetRun(std::string run) { identity_.run = std::move(run); }

  // Makes tokens of parts relative to `base` instead of 0. Moves the records
  // that already have a place, except those with a fixed token. May be called
  // at most once, before any chunk is finished.
  void SetTokenBase(int64_t base);

  // The place of a part. Until the caller has filled `payload` and called
  // Written, the part counts as a writer of its slot. Written returns true if
  // it completes a sealed chunk.
  struct PartPlace {
    Slot* slot = nullptr;
    std::span<std::byte> payload;
    uint32_t record_index = 0;
    // The part's addition to the contents of its chunk.
    ChunkContents::PartFacts part;
  };

  // Reserves room for a part, whose level must not be off. Returns nullopt if
  // no slot is free.
  std::optional<PartPlace> Reserve(const chunk::RecordSpec& part,
                                   KeptLevel kept);
  bool Written(const PartPlace& place) {
    place.slot->draft().SetWritten(place.record_index);
    return --place.slot->writer_count == 0 &&
           std::find(open_.begin(), open_.end(), place.slot) == open_.end();
  }

  // Replaces Written: removes the part from its chunk. A chunk without any
  // other part is discarded. Returns true in that case, and whenever Written
  // would.
  bool Withdraw(const PartPlace& place);

  // Seals the open chunks.
  void Seal();

  // Seals the open chunks of lower tokens.
  void SealBelow(int64_t token);

  size_t open_count() const {
    return open_.size() - std::count(open_.begin(), open_.end(), nullptr);
  }

  // Returns when the oldest open chunk received its first record; nullopt if no
  // chunk is open.
  std::optional<std::chrono::steady_clock::time_point> open_since() const;

 private:
  // Returns false if the part must go into a later chunk than `open`.
  bool MayJoin(const Slot& open, const chunk::RecordSpec& part,
               KeptLevel kept) const;
  // Returns nullopt if the part does not fit.
  std::optional<PartPlace> AddTo(Slot& slot, const chunk::RecordSpec& part,
                                 KeptLevel kept) const;
  void Seal(Slot*& open);

  ChunkIdentity identity_;
  bool parts_tokens_;
  SlotPool& pool_;
  DeliveryQueue& queue_;
  int64_t token_base_ = 0;
  uint64_t begun_count_ = 0;
  // Open chunks by level; null if there is none.
  std::array<Slot*, capture::kLevelCount> open_ = {};
};

}  // namespace msitd::libmsit
