// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Copies of a database that may be damaged, so that everything that can be read
// of it is read without changing it. Tables are links to those of the original,
// which nobody may be using. `copy` is a directory that does not exist yet.
namespace msitd::storage {

// Copies the database as it is. A damaged or missing CURRENT is replaced by one
// that names the newest manifest. Returns false, and makes no copy, if the
// directory does not exist or holds no file of a database.
absl::StatusOr<bool> CopyDamagedDatabase(const std::string& directory,
                                         const std::string& copy);

// Copies the database without its manifests, which are made again from the
// tables and logs that can be read. Returns the number of tables that cannot
// be. The copy may have entries that the original had deleted, if a table with
// their deletions is missing.
absl::StatusOr<int> CopyAndRepairDatabase(const std::string& directory,
                                          const std::string& copy);

}  // namespace msitd::storage
