// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/ask/report/table/table.h"

namespace msitd::ask {

// Every row with all that is known of it; `metrics` are those that the daemon
// has itself.
std::unique_ptr<TableSchema> MakeMsitdSchema(std::vector<std::string> metrics);

}  // namespace msitd::ask
