// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/env/env.h"

namespace msitd::storage {

// The directories that a rebuild uses below that of the store.
//
//   index.rebuilding  the new index, until it is complete; removed when a
//                     rebuild begins
//   index.rebuilt     the complete new index, for the moment until it becomes
//                     `index`
//   index.damaged-N   an earlier `index`; never removed
//
// At every moment, `index` is either the old or the new index. On a file system
// that cannot exchange two names at once, there is a moment without it. A
// rebuild that is killed in between is completed by the next one.
class IndexSwap {
 public:
  IndexSwap(Env& env, std::string store_directory)
      : env_(env), store_directory_(std::move(store_directory)) {}

  std::string building() const {
    return store_directory_ + "/index.rebuilding";
  }

  // The index of the store: `index`, or the one that a rebuild which was killed
  // had not yet renamed to that.
  std::string current() const;

  // Tidies up after a rebuild that was killed.
  absl::Status Prepare();
  // Makes the new index in building(), which nobody has open, that of the
  // store. Returns where the old one is now; empty if there was none.
  absl::StatusOr<std::string> Swap();

 private:
  std::string index() const { return store_directory_ + "/index"; }
  std::string built() const { return store_directory_ + "/index.rebuilt"; }
  // Renames a directory to index.damaged-N with the next free N.
  absl::StatusOr<std::string> Keep(const std::string& directory);

  Env& env_;
  const std::string store_directory_;
};

}  // namespace msitd::storage
