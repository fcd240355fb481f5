// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "protos/capture/capture_policy.h"

namespace msitd::libmsit {

// Caches the rules of a schedule that match each op, so that patterns are
// matched once per op instead of once per record. Thread-safe and lock-free.
// Ops are never removed.
class OpRulesCache {
 public:
  // Maximum number of ops; somewhat fewer if their hashes collide.
  static constexpr size_t kOpsMax = size_t{1} << 14;

  // `schedule` must outlive the cache. The constructor and Find throw
  // std::bad_alloc.
  explicit OpRulesCache(const capture::Schedule& schedule);
  ~OpRulesCache();
  OpRulesCache(const OpRulesCache&) = delete;
  OpRulesCache& operator=(const OpRulesCache&) = delete;

  // Returns the rules of `op`, which are valid as long as the cache. Null if
  // there is no room for the op, or if it is longer than kOpBytesMax.
  const capture::RuleBits* Find(std::string_view op);

 private:
  struct Entry {
    size_t hash;
    std::string op;
    capture::RuleBits rules;
  };

  const capture::Schedule& schedule_;
  // Null if empty. An entry is stored once, with release, and loaded with
  // acquire.
  const std::unique_ptr<std::atomic<const Entry*>[]> entries_;
};

}  // namespace msitd::libmsit
