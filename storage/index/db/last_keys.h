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

// Remembers the greatest key of each run, rank and device in the primary index.
// A larger key is certainly new, which saves a lookup. Names are numbered in
// the order of their first appearance, so a program that does the same in each
// token mostly appends.
//
// Correct only if its owner is the only writer of entries. Must be used by one
// thread at a time.
class LastKeys {
 public:
  explicit LastKeys(IndexDb& db) : db_(db) {}

  // Returns the greatest key with the run, rank and device of `key`; empty if
  // there is none. Valid until the next call.
  absl::StatusOr<std::string_view> Find(const EncodedKey& key);

  // Records that `key` is in the index now.
  void Accept(const EncodedKey& key);

  // Drops all keys after a write of unknown outcome, so that they are read from
  // the index again.
  void Forget() { last_.clear(); }

 private:
  // Maximum number of remembered combinations of run, rank and device.
  static constexpr size_t kEntriesMax = 4096;

  IndexDb& db_;
  std::unordered_map<std::string, std::string> last_;
};

}  // namespace msitd::storage
