// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/ask/report/table/table.h"

namespace msitd::ask {

// Returns a schema of all rows with all known values. `metrics` are those of
// the daemon.
std::unique_ptr<TableSchema> MakeMsitdSchema(std::vector<std::string> metrics);

}  // namespace msitd::ask
