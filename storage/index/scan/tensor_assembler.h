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

// Names by number, remembered for the length of a scan. Thread-compatible.
class ScanNames {
 public:
  explicit ScanNames(NameTable& table) : table_(table) {}

  // The name is valid until the next call.
  absl::StatusOr<const std::string*> Get(uint32_t id);

 private:
  // Forgets all over that, to bound its memory.
  static constexpr size_t kNamesMax = size_t{1} << 16;

  NameTable& table_;
  std::unordered_map<uint32_t, std::string> names_;
};

// Makes one TensorInfo of the entries of its parts. Thread-compatible.
class TensorAssembler {
 public:
  TensorAssembler(ExpiryTable& expiry, NameTable& names)
      : expiry_(expiry), placements_(names) {}

  // Reads the parts of the tensor at whose first entry `it` stands, of which
  // `key` is the key, and leaves `it` behind the last entry read. False if a
  // part is missing or the parts disagree; `out` is void then. Does not touch
  // `out.key`.
  absl::StatusOr<bool> Assemble(rocksdb::Iterator& it, const IndexKey& key,
                                TensorInfo& out);

 private:
  absl::StatusOr<bool> AssembleParts(rocksdb::Iterator& it, TensorInfo& out);

  void AppendPart(const IndexKey& key, const IndexValue& value,
                  TensorInfo& out);

  ExpiryTable& expiry_;
  ScanNames placements_;
  // Reused from tensor to tensor.
  IndexValue first_;
  IndexValue value_;
  std::vector<ContentHash> hashes_;
};

}  // namespace msitd::storage
