// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "client/foreign/fill/import_problems.h"
#include "client/foreign/match/mapping.h"
#include "client/msit/command/logger.h"

namespace msitd::fill {
class ImportJob;
}  // namespace msitd::fill

// Warnings for tensors that are not compared. The original does not report
// them.
namespace msitd::msit_command {

// Warns about files that could not be read: lists the first ones, and counts
// them for each reason.
void WarnOfProblems(const fill::ImportProblems& problems, Logger& log);

// Warns about tensors of a finished import that were dropped in favor of others
// with the same name.
void WarnOfConflicts(const fill::ImportJob& import, Logger& log);

// Logs tensors without a counterpart, by reason; those that should have one as
// warnings. Each line begins with `prefix`.
void TellOfLeft(const std::vector<match::LeftTensors>& all,
                std::string_view prefix, Logger& log);

// The same, after the notes of the mapping. `self_compared_count` conversions
// that GE inserted are compared with themselves and are not reported.
void TellOfMapping(const match::Mapping& mapping, size_t self_compared_count,
                   std::string_view prefix, Logger& log);

// Returns the tensors without a counterpart, except those that are compared
// with themselves.
std::vector<match::LeftTensors> LeftOf(const match::Mapping& mapping,
                                       size_t self_compared_count);

}  // namespace msitd::msit_command
