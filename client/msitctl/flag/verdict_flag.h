// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Binds --verdict. `texts` outlives `verb`.
void AddVerdictFlag(CLI::App& verb, std::vector<std::string>& texts);

// Parses "fail,unmatched" and the like. Returns INVALID_ARGUMENT for another
// word.
absl::StatusOr<std::vector<v1::Verdict>> ParseVerdicts(
    const std::vector<std::string>& texts);

// Returns " --verdict fail,unmatched"; empty for all verdicts, which an empty
// list represents.
std::string VerdictFlagText(const std::vector<v1::Verdict>& verdicts);

}  // namespace msitd::msitctl
