// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/view/gather.h"
#include "protos/base/cache_places.h"

namespace msitd::compare {

// Puts the first `count` positions of a request together. The result has the
// positions as its first dimension, followed by the other dimensions of the
// cache that are longer than 1: [count,n,d] for a cache of [b,n,L,d] as well as
// for one of [pages,16,n,d].
//
// Errors: FAILED_PRECONDITION if the places do not fit the shape of the cache,
// or are fewer than `count`.
absl::StatusOr<Gather> CutCache(Gather cache, const CachePlaces& places,
                                int64_t count);

// The cuts of the caches of one token. The caches of all layers have the same
// shape, so that they share what is large in a cut.
//
// Thread-compatible.
class CacheCuts {
 public:
  // Returns CutCache of recorded tensor 0 with this shape.
  const absl::StatusOr<Gather>& Get(
      const std::vector<int64_t>& shape,
      const std::shared_ptr<const CachePlaces>& places, int64_t count);

 private:
  using Key = std::pair<std::shared_ptr<const CachePlaces>,
                        std::pair<int64_t, std::vector<int64_t>>>;

  std::map<Key, absl::StatusOr<Gather>> cuts_;
};

// A cache, and the positions of a request that it holds.
//
// Thread-compatible. Borrows the tensor.
class CachedTensor {
 public:
  CachedTensor(const LogicalTensor& tensor,
               std::shared_ptr<const CachePlaces> places,
               int64_t position_count)
      : tensor_(tensor),
        places_(std::move(places)),
        position_count_(position_count) {}

  // Positions 0 to position_count() - 1 are known to be in the cache.
  int64_t position_count() const { return position_count_; }

  // The cache was recorded before the forward may have changed it.
  bool is_before() const { return tensor_.key.io != Io::kOutput; }

  // Returns the tensor that consists of the first `count` positions. If their
  // places are not known, the view has that as its problem.
  LogicalTensor View(int64_t count, CacheCuts& cuts) const;

  // Returns the tensor with a view that has this problem.
  LogicalTensor Refuse(const std::string& problem) const;

 private:
  const LogicalTensor& tensor_;
  const std::shared_ptr<const CachePlaces> places_;
  const int64_t position_count_;
};

// Returns a tensor with a view of the rows of a request that has this problem.
LogicalTensor RefuseRows(const LogicalTensor& tensor,
                         const std::string& positions,
                         const std::string& problem);

}  // namespace msitd::compare
