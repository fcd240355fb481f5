// SPDX-License-Identifier: Apache-2.0
#include "client/core/delivery_ledger.h"

namespace msitd::client {

void DeliveryLedger::Record(uint64_t bytes) {
  ++coverage_.seen_count;
  ++recorded_count_;
  recorded_bytes_ += bytes;
}

void DeliveryLedger::Filter() {
  ++coverage_.seen_count;
  ++coverage_.filtered_count;
}

void DeliveryLedger::Drop() {
  ++coverage_.seen_count;
  ++coverage_.dropped_count;
}

bool DeliveryLedger::Break(uint64_t sequence) {
  if (broken_.size() >= kBrokenMax) broken_.clear();
  return broken_.insert(sequence).second;
}

void DeliveryLedger::BreakOff(uint64_t sequence) {
  ++coverage_.seen_count;
  if (Break(sequence)) ++coverage_.truncated_count;
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
  coverage_.dropped_count += contents.tensor_count;
  for (const ChunkContents::Part& part : contents.parts) {
    // Those before it were acknowledged, or it would be broken already.
    if (Break(part.sequence)) {
      ++(part.is_first ? coverage_.dropped_count : coverage_.truncated_count);
    }
    if (part.is_last) broken_.erase(part.sequence);
  }
}

StreamCoverage DeliveryLedger::TakeNews() {
  told_ = coverage_;
  return coverage_;
}

}  // namespace msitd::client
