// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "storage/index/name/name_table.h"
#include "storage/index/table/expiry_table.h"

namespace rocksdb {
class Iterator;
}

namespace msitd::storage {

// Cache of names and stacks by number for the duration of a scan.
// Thread-compatible.
class ScanNames {
 public:
  explicit ScanNames(NameTable& table) : table_(table) {}

  // The returned name is valid until the next call.
  absl::StatusOr<const std::string*> Get(uint32_t id);

 private:
  // If either limit is exceeded, the cache is cleared.
  static constexpr size_t kNamesMax = size_t{1} << 16;
  static constexpr size_t kBytesMax = size_t{16} << 20;

  NameTable& table_;
  std::unordered_map<uint32_t, std::string> names_;
  size_t bytes_ = 0;  // Bytes in names_.
};

// Builds one TensorInfo from the entries of its parts, which are adjacent in
// the index and in the order of parts. dtype, shape, sequence, placement and
// all extras are those of the first part; the other parts must have the same
// dtype, shape and kind. Summaries are merged in the order of parts, and the
// hash is computed from the hashes of the parts. Thread-compatible.
class TensorAssembler {
 public:
  TensorAssembler(ExpiryTable& expiry, NameTable& names)
      : expiry_(expiry), texts_(names) {}

  // Reads the parts of one tensor. `it` must be at its first entry in the
  // index, and `key` must be the key of that entry. Returns false if a part is
  // missing or the parts are inconsistent; `out` then has only its kind. Leaves
  // `it` at the first entry that was not used, and does not change `out.key`.
  absl::StatusOr<bool> Assemble(rocksdb::Iterator& it, const IndexKey& key,
                                TensorInfo& out);

 private:
  absl::StatusOr<bool> AssembleParts(rocksdb::Iterator& it, TensorInfo& out);

  // Fills in the fields that only the first part has.
  absl::Status FillExtras(TensorInfo& out);

  void AppendPart(const IndexKey& key, const IndexValue& value,
                  TensorInfo& out);

  ExpiryTable& expiry_;
  ScanNames texts_;
  // Reused for each tensor.
  IndexValue first_;
  IndexValue value_;
  std::vector<ContentHash> hashes_;
};

}  // namespace msitd::storage
