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

// Names and stacks by number, remembered for the length of a scan.
// Thread-compatible.
class ScanNames {
 public:
  explicit ScanNames(NameTable& table) : table_(table) {}

  // The name is valid until the next call.
  absl::StatusOr<const std::string*> Get(uint32_t id);

 private:
  // Above one of these all names are forgotten, to bound the memory.
  static constexpr size_t kNamesMax = size_t{1} << 16;
  static constexpr size_t kBytesMax = size_t{16} << 20;

  NameTable& table_;
  std::unordered_map<uint32_t, std::string> names_;
  size_t bytes_ = 0;  // In names_.
};

// Makes one TensorInfo from the entries of its parts, which are neighbours in
// the index, in the order of parts. dtype, shape, sequence and placement are
// those of the first part, as are all extras; the others must agree with its
// dtype, shape and kind.
// Summaries are merged in the order of parts, and the hash is made of the
// hashes of the parts. Thread-compatible.
class TensorAssembler {
 public:
  TensorAssembler(ExpiryTable& expiry, NameTable& names)
      : expiry_(expiry), texts_(names) {}

  // Reads the parts of one tensor. `it` is at the first entry that the index
  // has of it, and `key` is that entry's key. Returns false if a part is
  // missing or the parts disagree; `out` has its kind
  // alone then. Leaves `it` at the first
  // entry that was not taken, and does not touch `out.key`.
  absl::StatusOr<bool> Assemble(rocksdb::Iterator& it, const IndexKey& key,
                                TensorInfo& out);

 private:
  absl::StatusOr<bool> AssembleParts(rocksdb::Iterator& it, TensorInfo& out);

  // Fills in what only the first part has.
  absl::Status FillExtras(TensorInfo& out);

  void AppendPart(const IndexKey& key, const IndexValue& value,
                  TensorInfo& out);

  ExpiryTable& expiry_;
  ScanNames texts_;
  // Reused from tensor to tensor.
  IndexValue first_;
  IndexValue value_;
  std::vector<ContentHash> hashes_;
};

}  // namespace msitd::storage
