// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Copies of a database that may be damaged, for reading everything that is
// readable without changing the original. The original must not be in use.
// `copy` is a directory that must not exist yet.
namespace msitd::storage {

// Copies the database as it is; the tables of the copy are links to those of
// the original. A damaged or missing CURRENT is replaced by one that names the
// newest manifest. Returns false, without making a copy, if the directory does
// not exist or has no file of a database.
absl::StatusOr<bool> CopyDamagedDatabase(const std::string& directory,
                                         const std::string& copy);

// True if all blocks of the file of a table match their checksums.
bool IsSoundTable(const std::string& path);

// Builds a database from all readable tables and logs, ignoring the manifest.
// For each key it has the newest version, which may be a deletion. Use
// DecodeVersion to read values.
//
// RocksDB's own repair is not sufficient: it puts all tables into one level,
// where the checks of the library reject tables that a compaction has created,
// and it omits a table if any block of it is damaged. Therefore each table is
// repaired as a database of its own, and their entries are then merged by
// sequence number. If a block of a table is damaged, its entries before the
// first and after the last damaged block are used only for keys that no other
// table has.
//
// Returns the files that cannot be read completely.
absl::StatusOr<std::vector<std::string>> MergeReadableFiles(
    const std::string& directory, const std::string& copy);

// Returns the value of a version; nothing if the version is a deletion.
std::optional<std::string_view> DecodeVersion(std::string_view version);

}  // namespace msitd::storage
