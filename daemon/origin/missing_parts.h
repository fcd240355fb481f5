// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/origin/module_facts.h"
#include "daemon/origin/rank_events.h"
#include "daemon/origin/record_facts.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// Returns a module inside `op` that may have run without being recorded; empty
// if there is none. A module without records at the token counts if it has no
// records at any other token either, and its client did not report that it was
// never called. Without a module tree, no module is known.
//
// Errors: those of the reader; that of `stop`.
absl::StatusOr<std::string> FindMissingPart(
    const RankEvents& events, storage::RunReader& run, const ModuleTree& tree,
    const RecordFacts& facts, std::string_view op, storage::StopCheck stop);

}  // namespace msitd::origin
