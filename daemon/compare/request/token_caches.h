// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/cache_places.h"
#include "protos/base/selector.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of documents of caches that a rank may have at a token. They
// take up to 1 MiB each, usually less than a hundred bytes.
inline constexpr size_t kCacheDocumentsMax = 4096;

// Returns whether a tensor has the name of a cache of a well-known library,
// such as `past_key_values`. Where its positions are is not known from that.
bool HasNameOfCache(const TensorKey& key);

// The caches of one rank at one token, by the documents of the run
// (protos/base/cache_places.h).
//
// A tensor belongs to the cache with a name NAME
// - if its index is NAME or begins with `NAME.`,
// - for a result or a state: if its op is NAME, or ends with it after a dot or
//   a slash, or if NAME is a pattern that matches its op.
// The longest name applies.
//
// Thread-compatible.
class TokenCaches {
 public:
  using Places = std::shared_ptr<const CachePlaces>;

  // Reads the documents of the first of the selected ranks that has any. All
  // selected ranks process the same requests.
  //
  // Errors: those of `stop` and of the reader; RESOURCE_EXHAUSTED above
  // kCacheDocumentsMax.
  static absl::StatusOr<TokenCaches> Read(storage::RunReader& run,
                                          const Selector& selector,
                                          storage::StopCheck stop);

  // Returns whether a run has documents of caches. Errors: as Read.
  static absl::StatusOr<bool> AnyIn(storage::RunReader& run,
                                    storage::StopCheck stop);

  // Adds the document of a request.
  void Add(std::string_view id, std::string_view text);

  // Returns whether a tensor belongs to a cache.
  bool Has(const TensorKey& key) const { return Find(key) != nullptr; }

  // Returns the places of a request in the cache that a tensor belongs to; null
  // if no document states them.
  Places PlacesOf(const TensorKey& key, std::string_view id) const;

 private:
  using ById = std::map<std::string, Places, std::less<>>;

  const ById* Find(const TensorKey& key) const;

  std::map<std::string, ById, std::less<>> caches_;  // By name.
};

}  // namespace msitd::compare
