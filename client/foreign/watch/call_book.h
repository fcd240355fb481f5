// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/foreign/fill/import_ledger.h"
#include "protos/base/tensor_key.h"

namespace msitd::watch {

// Counts the calls of ops whose files come one after another, as a reader of
// the whole folder does. What the book does not remember, because it is of a
// former process or too long ago, the ledger tells. Thread-compatible.
class CallBook {
 public:
  // Ops of tokens that are remembered. Beyond, all are forgotten.
  static constexpr size_t kOpsMax = size_t{1} << 18;

  // Borrows `ledger`, which stays current.
  explicit CallBook(const fill::ImportLedger& ledger) : ledger_(ledger) {}

  // Returns the call of the op of `key` to which a file belongs. Files of one
  // call have the same `group`. Groups of an op come in order of time, or they
  // are late.
  int32_t CallOf(TensorKey key, const std::string& group,
                 const std::string& time);

  // Calls that came after a later one, and were counted behind it.
  int64_t late_count() const { return late_count_; }

 private:
  struct Op {
    std::vector<std::pair<uint64_t, int32_t>> calls;
    int32_t next = 0;
    std::string last_time;
  };

  const fill::ImportLedger& ledger_;
  std::unordered_map<uint64_t, Op> ops_;
  int64_t late_count_ = 0;
};

}  // namespace msitd::watch
