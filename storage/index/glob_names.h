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
#include "storage/index/index_db.h"

namespace msitd::storage {

// Which names of the store a glob matches. Names never go, so what is known is
// kept, and a later call tries the pattern on those that came since. Thread-
// safe.
class GlobNames {
 public:
  // A store with more names has no answer: to try all of them takes some tens
  // of milliseconds.
  static constexpr uint64_t kNamesMax = uint64_t{1} << 16;

  // Patterns that are kept; one more, and all are forgotten.
  static constexpr size_t kPatternsMax = 16;

  using Numbers = std::vector<uint64_t>;

  explicit GlobNames(IndexDb& db) : db_(db) {}

  // Returns the numbers, ascending, of all names that `pattern` matches and
  // that were written before the call; null above kNamesMax.
  absl::StatusOr<std::shared_ptr<const Numbers>> Find(std::string_view pattern)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    std::shared_ptr<const Numbers> matches = std::make_shared<Numbers>();
    uint32_t next = 1;  // The first name that the pattern was not tried on.
  };

  // Tries `pattern` on what came since.
  absl::Status Extend(std::string_view pattern, Known& known);

  IndexDb& db_;
  Mutex mu_;
  std::map<std::string, Known, std::less<>> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
