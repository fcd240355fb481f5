// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Remembers which rules of a schedule match each op, so that patterns are
// matched once per op, not once per record. Thread-safe and lock-free. Ops are
// never forgotten.
class OpRulesCache {
 public:
  // Most ops remembered; somewhat fewer if their hashes collide.
  static constexpr size_t kOpsMax = size_t{1} << 14;

  // `schedule` outlives the cache. This and Find throw std::bad_alloc.
  explicit OpRulesCache(const capture::Schedule& schedule);
  ~OpRulesCache();
  OpRulesCache(const OpRulesCache&) = delete;
  OpRulesCache& operator=(const OpRulesCache&) = delete;

  // Returns the rules of `op`, which live as long as the cache. Null if there
  // is no room for the op, or if it is longer than kOpBytesMax.
  const capture::OpRules* Find(std::string_view op);

 private:
  struct Entry {
    size_t hash;
    std::string op;
    capture::OpRules rules;
  };

  const capture::Schedule& schedule_;
  // Null where there is no entry. An entry is stored once, with release, and
  // loaded with acquire.
  const std::unique_ptr<std::atomic<const Entry*>[]> entries_;
};

}  // namespace msitd::client
