// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/delivery_ledger.h"

#include <algorithm>

namespace msitd::libmsit {

void ChunkContents::Add(const PartFacts& part) {
  if (!part.is_first || !part.is_last) return parts.push_back(part);
  ++tensor_count;
  tensor_bytes += part.tensor_bytes;
  degraded_count += part.is_degraded ? 1 : 0;
}

void ChunkContents::Remove(const PartFacts& part) {
  if (part.is_first && part.is_last) {
    --tensor_count;
    tensor_bytes -= part.tensor_bytes;
    degraded_count -= part.is_degraded ? 1 : 0;
    return;
  }
  // If only digests are sent, a chunk may contain several parts of a tensor.
  const auto it =
      std::find_if(parts.begin(), parts.end(), [&part](const PartFacts& one) {
        return one.sequence == part.sequence && one.is_first == part.is_first &&
               one.is_last == part.is_last;
      });
  if (it != parts.end()) parts.erase(it);
}

void DeliveryLedger::Record(uint64_t bytes) {
  ++coverage_.seen_count;
  ++recorded_count_;
  recorded_bytes_ += bytes;
}

void DeliveryLedger::RecordAlias(uint64_t bytes) {
  Record(0);
  ++aliased_count_;
  aliased_bytes_ += bytes;
}

void DeliveryLedger::SetFiltered(uint64_t count) {
  coverage_.seen_count += count - coverage_.filtered_count;
  coverage_.filtered_count = count;
}

void DeliveryLedger::Drop() {
  ++coverage_.seen_count;
  ++coverage_.dropped_count;
}

void DeliveryLedger::TakeBack() { ++coverage_.dropped_count; }

bool DeliveryLedger::Break(uint64_t sequence) {
  const bool is_new = broken_.insert(sequence).second;
  if (broken_.size() > kBrokenMax) broken_.erase(broken_.begin());
  return is_new;
}

void DeliveryLedger::BreakOff(uint64_t sequence) {
  ++coverage_.seen_count;
  if (Break(sequence)) ++coverage_.truncated_count;
}

void DeliveryLedger::Acknowledge(const ChunkContents& contents) {
  acknowledged_count_ += contents.tensor_count;
  acknowledged_bytes_ += contents.tensor_bytes;
  coverage_.degraded_count += contents.degraded_count;
  for (const ChunkContents::PartFacts& part : contents.parts) {
    if (!part.is_last || broken_.erase(part.sequence) != 0) continue;
    ++acknowledged_count_;
    acknowledged_bytes_ += part.tensor_bytes;
    coverage_.degraded_count += part.is_degraded ? 1 : 0;
  }
}

void DeliveryLedger::DropChunk(const ChunkContents& contents) {
  coverage_.dropped_count += contents.tensor_count;
  for (const ChunkContents::PartFacts& part : contents.parts) {
    // The parts before this one were sent, or the tensor would already be
    // broken. It stays broken after its last part, because earlier parts may
    // still be dropped.
    if (Break(part.sequence)) {
      ++(part.is_first ? coverage_.dropped_count : coverage_.truncated_count);
    }
  }
}

StreamCoverage DeliveryLedger::TakeReport() {
  reported_ = coverage_;
  return coverage_;
}

}  // namespace msitd::libmsit
