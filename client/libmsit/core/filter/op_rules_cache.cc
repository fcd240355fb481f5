// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/op_rules_cache.h"

#include <functional>

#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

// Number of consecutive entries where an op may be stored, starting at its
// hash.
constexpr size_t kPlaces = 8;

}  // namespace

OpRulesCache::OpRulesCache(const capture::Schedule& schedule)
    : schedule_(schedule),
      entries_(std::make_unique<std::atomic<const Entry*>[]>(kOpsMax)) {}

OpRulesCache::~OpRulesCache() {
  for (size_t i = 0; i < kOpsMax; ++i) {
    delete entries_[i].load(std::memory_order_relaxed);
  }
}

// An open-addressed hash table that only grows. A thread that finds an empty
// entry creates the value and stores it with one compare-exchange. If another
// thread was faster, that thread's entry is examined like any other.
const capture::RuleBits* OpRulesCache::Find(std::string_view op) {
  // The op has not been validated yet.
  if (op.size() > kOpBytesMax) return nullptr;
  const size_t hash = std::hash<std::string_view>()(op);
  for (size_t i = 0; i < kPlaces; ++i) {
    std::atomic<const Entry*>& place = entries_[(hash + i) % kOpsMax];
    // Pairs with the exchange below, so that the entry is complete.
    const Entry* entry = place.load(std::memory_order_acquire);
    if (entry == nullptr) {
      std::unique_ptr<const Entry> made(
          new Entry{hash, std::string(op), schedule_.RulesOf(op)});
      if (place.compare_exchange_strong(entry, made.get(),
                                        std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        return &made.release()->rules;
      }
    }
    if (entry->hash == hash && entry->op == op) return &entry->rules;
  }
  return nullptr;
}

}  // namespace msitd::libmsit
