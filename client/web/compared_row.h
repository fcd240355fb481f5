// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

// Rows of a comparison, and the runs and tensors that they are about.
namespace msitd::web {

// Finds a run of a comparison. Leaves `out` empty for a run that no longer
// exists, or whose name another run has now, or that another daemon has.
ask::Outcome FindRun(ask::Connection& connection, const std::string& name,
                     const std::string& id, const std::string& source,
                     std::optional<v1::Run>& out);

// Finds a row by its number.
ask::Outcome FindRow(ask::Connection& connection, const std::string& comparison,
                     int64_t number, v1::ComparisonRow& out);

// Sets `out` to whether the daemon has the tensors of a comparison, and not
// only its rows.
ask::Outcome HaveTensors(ask::Connection& connection,
                         const v1::Comparison& comparison, bool& out);

}  // namespace msitd::web
