// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Reads what can be read of an index that may be damaged. It works on copies,
// so the index stays as it is.
//
// Two copies are read. The first is the database as its manifest describes it:
// if all files of a table are sound there, that is all there was, and nothing
// that was deleted. The second copy is made only if the first one is not
// enough: it is merged from all files that can be read. It has the entries of a
// database whose manifest is lost, but it may also have entries that had been
// deleted.
//
// Thread-compatible.
class IndexSalvage {
 public:
  // Copies go to `scratch`, a directory that does not exist and that goes with
  // the object. Damage is not an error, and neither is an index that does not
  // exist: then there are no entries.
  //
  // Errors: those of making the copies, such as RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<IndexSalvage>> Open(
      const std::string& index_directory, const std::string& scratch);
  ~IndexSalvage();

  // False if there is no database at all.
  bool exists() const { return exists_; }
  // What is wrong with the index, as far as it is known; empty if nothing is.
  const std::vector<std::string>& damage() const { return damage_; }

  // True if ForEach visits all entries that the table had and no others.
  bool IsComplete(Table table) const {
    return is_complete_[static_cast<size_t>(table)];
  }

  // Calls `visit` for each entry whose key begins with `prefix`, in the order
  // of keys.
  //
  // Errors: those of `visit` and of reading the copy.
  absl::Status ForEach(
      Table table, std::string_view prefix,
      absl::FunctionRef<absl::Status(std::string_view, std::string_view)>
          visit);

  // Returns one value; nothing if there is no such entry or it cannot be read.
  std::optional<std::string> Get(Table table, std::string_view key);

 private:
  explicit IndexSalvage(std::string index_directory, std::string scratch)
      : index_directory_(std::move(index_directory)),
        scratch_(std::move(scratch)) {}

  absl::Status OpenCopy();
  // Finds out which tables of the first copy are sound.
  void CheckTables();
  // Makes the second copy.
  absl::Status Merge();
  void AddDamage(std::string_view what);
  std::string AsIs() const { return scratch_ + "/as-is"; }
  std::string Merged() const { return scratch_ + "/merged"; }

  const std::string index_directory_;
  const std::string scratch_;
  bool exists_ = false;
  std::vector<std::string> damage_;
  std::unique_ptr<IndexDb> as_is_;  // Null: it cannot be opened as it is.
  std::unique_ptr<IndexDb> merged_;
  bool is_complete_[kTableCount] = {};
};

}  // namespace msitd::storage
