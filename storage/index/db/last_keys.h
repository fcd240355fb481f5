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

// The greatest key of each run, rank and device in the primary index. A key
// behind it is not there, which spares a look-up: names get their numbers in
// the order of their appearance, so a program that does the same in each token
// mostly appends.
//
// Right as long as all entries are put by its owner. Single-sequence.
class LastKeys {
 public:
  explicit LastKeys(IndexDb& db) : db_(db) {}

  // Returns the greatest key that begins like `key`, empty if there is none.
  // Lives until the next call.
  absl::StatusOr<std::string_view> Find(const EncodedKey& key);

  // `key` is in the index now.
  void Accept(const EncodedKey& key);

  // Nobody knows what is in the index: it is asked again.
  void Forget() { last_.clear(); }

 private:
  // Runs, ranks and devices that are remembered at a time.
  static constexpr size_t kEntriesMax = 4096;

  IndexDb& db_;
  std::unordered_map<std::string, std::string> last_;
};

}  // namespace msitd::storage
