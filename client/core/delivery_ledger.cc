// SPDX-License-Identifier: Apache-2.0
#include "client/core/delivery_ledger.h"

#include <utility>

namespace msitd::client {

void DeliveryLedger::Record(uint64_t bytes) {
  ++recorded_count_;
  recorded_bytes_ += bytes;
}

bool DeliveryLedger::Break(uint64_t sequence) {
  if (broken_.size() >= kBrokenMax) broken_.clear();
  return broken_.insert(sequence).second;
}

void DeliveryLedger::BreakOff(uint64_t sequence) {
  if (Break(sequence)) ++dropped_count_;
}

void DeliveryLedger::Acknowledge(const ChunkContents& contents) {
  acknowledged_count_ += contents.tensor_count;
  acknowledged_bytes_ += contents.tensor_bytes;
  for (const ChunkContents::Part& part : contents.parts) {
    if (!part.is_last || broken_.erase(part.sequence) != 0) continue;
    ++acknowledged_count_;
    acknowledged_bytes_ += part.tensor_bytes;
  }
}

void DeliveryLedger::DropChunk(const ChunkContents& contents) {
  dropped_count_ += contents.tensor_count;
  for (const ChunkContents::Part& part : contents.parts) {
    if (Break(part.sequence)) ++dropped_count_;
    if (part.is_last) broken_.erase(part.sequence);
  }
}

uint64_t DeliveryLedger::TakeUnreportedDrops() {
  return dropped_count_ - std::exchange(reported_drop_count_, dropped_count_);
}

}  // namespace msitd::client
