// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/compare/match/run_losses.h"
#include "daemon/compare/match/stream_watch.h"
#include "daemon/compare/request/request_join.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/run_ranks.h"

// Writes the state of both runs into the header of a comparison. Each function
// replaces earlier values.
namespace msitd::compare {

// Also updates `partial`.
void ShowRanks(const storage::RunRanks& golden, const storage::RunRanks& target,
               v1::Comparison& header);

// Also updates `partial`. A run without losses has no message.
void ShowLosses(const RunLosses& golden, const RunLosses& target,
                v1::Comparison& header);

// Shows which requests the runs have in common.
void ShowRequests(const RequestJoin& join, v1::Comparison& header);

// Shows at most kSilentRanksMax ranks.
void ShowSilentRanks(const std::vector<Outlook::Silent>& golden,
                     const std::vector<Outlook::Silent>& target,
                     v1::Comparison& header);

// Sets whether the comparison does not cover the complete runs.
void UpdatePartial(v1::Comparison& header);

// Sets whether missing data may have diverged before the first divergence.
// `first_absent_token` is the first token at which ranks that a run lacks may
// have tensors; nothing if no rank is missing.
void UpdateMayDivergeBefore(std::optional<int64_t> first_absent_token,
                            v1::Comparison& header);

}  // namespace msitd::compare
