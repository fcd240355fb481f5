// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Finds the names of the store that a glob pattern matches. Results are cached;
// a later call tests the pattern only on names that were added since.
// Thread-safe; no lock is held while names are tested.
class GlobNames {
 public:
  // If the store has more names, Find returns null.
  static constexpr uint64_t kNamesMax = uint64_t{1} << 16;

  // Maximum number of cached patterns, and of numbers of names over all of
  // them. If either is exceeded, the cache is cleared.
  static constexpr size_t kPatternsMax = 256;
  static constexpr size_t kNumbersMax = size_t{1} << 20;

  // Maximum work for one selector in units of WorkMeter, some tens of
  // milliseconds. Sufficient for one pattern and kNamesMax typical names.
  static constexpr int64_t kUnitsMax = int64_t{1} << 18;

  using Numbers = std::vector<uint64_t>;

  explicit GlobNames(IndexDb& db) : db_(db) {}

  // Returns the numbers, ascending, of all names that `pattern` matches and
  // that were written before the call. Subtracts the work from `units_left`.
  // Returns null if the store has more than kNamesMax names, or if the work
  // exceeds `units_left`; partial results are kept for the next call.
  absl::StatusOr<std::shared_ptr<const Numbers>> Find(std::string_view pattern,
                                                      int64_t& units_left)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    std::shared_ptr<const Numbers> matches = std::make_shared<Numbers>();
    uint32_t next = 1;  // The first name that the pattern was not tested on.
  };

  Known Recall(std::string_view pattern) ABSL_LOCKS_EXCLUDED(mu_);
  // Tests `pattern` on the names added since `known`. False if the store has
  // more than kNamesMax names, or if `units_left` is not sufficient.
  absl::StatusOr<bool> Extend(std::string_view pattern, Known& known,
                              int64_t& units_left);
  // Caches `known` unless the cache has a more complete result.
  void Keep(std::string_view pattern, Known known) ABSL_LOCKS_EXCLUDED(mu_);

  IndexDb& db_;
  Mutex mu_;
  std::map<std::string, Known, std::less<>> known_ ABSL_GUARDED_BY(mu_);
  size_t number_count_ ABSL_GUARDED_BY(mu_) = 0;  // Number of elements in
                                                  // known_.
};

}  // namespace msitd::storage
