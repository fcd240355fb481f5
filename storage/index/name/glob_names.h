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

// Finds which names of the store a glob matches. Results are kept; a later call
// tries the pattern only on names that came since. Thread-safe; no lock is held
// while names are tried.
class GlobNames {
 public:
  // With more names in the store, Find gives no answer.
  static constexpr uint64_t kNamesMax = uint64_t{1} << 16;

  // How many patterns are kept, and how many numbers of names for all of them.
  // With one more, all are forgotten.
  static constexpr size_t kPatternsMax = 256;
  static constexpr size_t kNumbersMax = size_t{1} << 20;

  // What one selector may spend, in units of WorkMeter: some tens of
  // milliseconds. Enough for one pattern and kNamesMax names as they are.
  static constexpr int64_t kUnitsMax = int64_t{1} << 18;

  using Numbers = std::vector<uint64_t>;

  explicit GlobNames(IndexDb& db) : db_(db) {}

  // Returns the numbers, ascending, of all names that `pattern` matches and
  // that were written before the call. Subtracts the work from `units_left`.
  // Returns null if the store has more than kNamesMax names, or if the work
  // takes more than `units_left`; what was found by then is kept for the next
  // call.
  absl::StatusOr<std::shared_ptr<const Numbers>> Find(std::string_view pattern,
                                                      int64_t& units_left)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    std::shared_ptr<const Numbers> matches = std::make_shared<Numbers>();
    uint32_t next = 1;  // The first name that the pattern was not tried on.
  };

  Known Recall(std::string_view pattern) ABSL_LOCKS_EXCLUDED(mu_);
  // Tries `pattern` on the names that came since `known`. False if the store
  // has more than kNamesMax names, or if `units_left` does not suffice.
  absl::StatusOr<bool> Extend(std::string_view pattern, Known& known,
                              int64_t& units_left);
  // Keeps `known` unless more is known by now.
  void Keep(std::string_view pattern, Known known) ABSL_LOCKS_EXCLUDED(mu_);

  IndexDb& db_;
  Mutex mu_;
  std::map<std::string, Known, std::less<>> known_ ABSL_GUARDED_BY(mu_);
  size_t number_count_ ABSL_GUARDED_BY(mu_) = 0;  // In known_.
};

}  // namespace msitd::storage
