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

#include "client/core/delivery/delivery_queue.h"
#include "client/core/delivery/slot_pool.h"
#include "client/core/tensor_view.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::client {

// How much of a record is kept.
struct Keep {
  capture::Level level = capture::Level::kFull;
  // The capture policy asks for more.
  bool is_degraded = false;
};

// What the chunks of one stream have in common.
struct ChunkIdentity {
  std::string run;
  int32_t rank = 0;
  uint64_t stream_id = 0;
};

// Gathers records in chunks. It holds at most one open chunk for each level,
// since all of a chunk is kept in the same way; a chunk is sealed into the
// delivery queue when the next record does not fit, or by Seal.
// Thread-compatible; the payload is written without its lock.
class Chunker {
 public:
  // `pool` and `queue` outlive the chunker. With `parts_tokens` all records of
  // a chunk have its token.
  Chunker(ChunkIdentity identity, bool parts_tokens, SlotPool& pool,
          DeliveryQueue& queue)
      : identity_(std::move(identity)),
        parts_tokens_(parts_tokens),
        pool_(pool),
        queue_(queue) {}

  // Chunks name another run from now on. There is none yet.
  void SetRun(std::string run) { identity_.run = std::move(run); }

  // Where a part goes. Its slot counts one more writer, until the caller has
  // filled `payload` and calls Written, which returns true if that completes a
  // sealed chunk.
  struct Place {
    Slot* slot = nullptr;
    std::span<std::byte> payload;
    uint32_t record_index = 0;
  };

  // Finds room for a part at a level that is not off; nothing if no slot is
  // free.
  std::optional<Place> Reserve(const chunk::RecordSpec& part, Keep keep);
  bool Written(const Place& place) {
    place.slot->draft().SetWritten(place.record_index);
    return --place.slot->writer_count == 0 &&
           std::find(open_.begin(), open_.end(), place.slot) == open_.end();
  }

  // Seals the open chunks.
  void Seal();

  // Seals those whose token is lower.
  void SealBelow(int64_t token);

  size_t open_count() const {
    return open_.size() - std::count(open_.begin(), open_.end(), nullptr);
  }

  // When the oldest open chunk got its first record; nothing if there is none.
  std::optional<std::chrono::steady_clock::time_point> open_since() const;

 private:
  // Of the record that was added last.
  static Place PlaceOf(Slot* slot, std::span<std::byte> payload);
  // False if the part belongs into a later chunk than `open`.
  bool MayJoin(const Slot& open, const chunk::RecordSpec& part) const;
  std::span<std::byte> AddTo(Slot& slot, const chunk::RecordSpec& part,
                             bool is_degraded);
  void Seal(Slot*& open);

  ChunkIdentity identity_;
  bool parts_tokens_;
  SlotPool& pool_;
  DeliveryQueue& queue_;
  uint64_t begun_count_ = 0;
  // Open chunks by level; null where there is none.
  std::array<Slot*, capture::kLevelCount> open_ = {};
};

// Copies the bytes [part_offset, part_offset + out.size()) of `tensor`, as it
// would lie in row-major order without gaps, to `out`.
void CopyPart(const TensorView& tensor, uint64_t part_offset,
              std::span<std::byte> out);

}  // namespace msitd::client
