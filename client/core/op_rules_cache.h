// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Remembers which rules of a schedule each op agrees with, so that its patterns
// are matched once per op and not once per record. Thread-safe and without
// locks; ops are never forgotten.
class OpRulesCache {
 public:
  // Ops that are remembered; somewhat fewer where their hashes collide.
  static constexpr size_t kOpsMax = size_t{1} << 14;

  // `schedule` outlives the cache. Throws std::bad_alloc, as does Find.
  explicit OpRulesCache(const capture::Schedule& schedule);
  ~OpRulesCache();
  OpRulesCache(const OpRulesCache&) = delete;
  OpRulesCache& operator=(const OpRulesCache&) = delete;

  // Returns the rules of `op`, which live as long as the cache; null if there
  // is no room for it, or if it is longer than kOpBytesMax.
  const capture::OpRules* Find(std::string_view op);

 private:
  struct Entry {
    size_t hash;
    std::string op;
    capture::OpRules rules;
  };

  const capture::Schedule& schedule_;
  // Null where there is none. An entry is stored with release once, and read
  // with acquire.
  const std::unique_ptr<std::atomic<const Entry*>[]> entries_;
};

}  // namespace msitd::client
