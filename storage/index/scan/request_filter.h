// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_key.h"
#include "storage/index/name/name_table.h"

namespace rocksdb {
class Iterator;
}

namespace msitd::storage {

// Selects the tokens of ranks that process one of the given requests; see
// protos/base/request.h. Thread-compatible.
class RequestFilter {
 public:
  // `requests` has at least one id. Errors: those of reading names.
  static absl::StatusOr<RequestFilter> Create(
      const std::vector<std::string>& requests, IndexDb& db, NameTable& names);

  // Defined in the source file, because the type of the iterator is incomplete
  // here.
  RequestFilter(RequestFilter&& other) noexcept;
  ~RequestFilter();

  // True if the run has no such request anywhere.
  bool is_void() const { return ops_.empty(); }

  // True if the token of `key` has one of the requests. Reads the index once
  // for each token and request; asks() returns how often the last call did.
  absl::StatusOr<bool> Holds(const IndexKey& key);
  uint64_t asks() const { return asks_; }

 private:
  RequestFilter();

  // Numbers of names.
  uint32_t device_ = 0;
  uint32_t index_ = 0;
  std::vector<uint32_t> ops_;
  std::unique_ptr<rocksdb::Iterator> it_;
  // The last answer, which applies to all keys of this token.
  bool is_known_ = false;
  uint32_t rank_ = 0;
  uint64_t token_ = 0;
  bool holds_ = false;
  uint64_t asks_ = 0;
};

}  // namespace msitd::storage
