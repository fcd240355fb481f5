// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {

// Knows the greatest key of each run, rank and device in the primary index. A
// key beyond it is certainly new, which saves a look-up. Names are numbered in
// the order of their first appearance, so a program that does the same in each
// token mostly appends.
//
// Correct as long as only its owner puts entries. Single-sequence.
class LastKeys {
 public:
  explicit LastKeys(IndexDb& db) : db_(db) {}

  // Returns the greatest key with the run, rank and device of `key`; empty if
  // there is none. Valid until the next call.
  absl::StatusOr<std::string_view> Find(const EncodedKey& key);

  // Notes that `key` is in the index now.
  void Accept(const EncodedKey& key);

  // Forgets all keys, after a write of unknown outcome: the index is asked
  // again.
  void Forget() { last_.clear(); }

 private:
  // Runs, ranks and devices that are remembered at a time.
  static constexpr size_t kEntriesMax = 4096;

  IndexDb& db_;
  std::unordered_map<std::string, std::string> last_;
};

}  // namespace msitd::storage
