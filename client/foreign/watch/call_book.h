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

// Numbers the calls of ops whose files arrive one after another, in the same
// way as a reader of the whole folder. Calls that the book does not remember,
// because they are from an earlier process or too old, are found in the ledger.
// Thread-compatible.
class CallBook {
 public:
  // Ops of tokens that are remembered. Beyond this, all are discarded.
  static constexpr size_t kOpsMax = size_t{1} << 18;

  // Borrows `ledger`, which stays current.
  explicit CallBook(const fill::ImportLedger& ledger) : ledger_(ledger) {}

  // Returns the call of the op of `key` to which a file belongs. Files of one
  // call have the same `group`. Groups of an op must be passed in the order of
  // time; other groups are counted as late.
  int32_t CallOf(TensorKey key, const std::string& group,
                 const std::string& time);

  // Calls that arrived after a later call, and were numbered after it.
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
