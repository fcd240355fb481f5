// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Copies of a database that may be damaged, so that everything that can be read
// of it is read without changing it. Nobody may be using the original. `copy`
// is a directory that does not exist yet.
namespace msitd::storage {

// Copies the database as it is; its tables are links to those of the original.
// A damaged or missing CURRENT is replaced by one that names the newest
// manifest. Returns false, and makes no copy, if the directory does not exist
// or holds no file of a database.
absl::StatusOr<bool> CopyDamagedDatabase(const std::string& directory,
                                         const std::string& copy);

// True if all blocks of the file of a table match their checksums.
bool IsSoundTable(const std::string& path);

// Makes a database from the tables and logs that can be read, whatever the
// manifest says. Of each key it has the newest version, which may be that it
// was deleted. Values are to be read with DecodeVersion.
//
// RocksDB's own repair is not enough: it puts all tables in one level, where
// the checks of the library refuse tables that a compaction had made, and it
// leaves a table out if any block of it is damaged. So each table is repaired
// as a database of its own, and then their entries are merged by their
// sequence numbers. If a block of a table is damaged, its entries before the
// first and after the last such block count if no other table has the key.
//
// Returns the files that cannot be read completely.
absl::StatusOr<std::vector<std::string>> MergeReadableFiles(
    const std::string& directory, const std::string& copy);

// Returns the value of a version; nothing if it says that the key was deleted.
std::optional<std::string_view> DecodeVersion(std::string_view version);

}  // namespace msitd::storage
