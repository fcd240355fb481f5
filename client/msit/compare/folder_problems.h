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

// What is not compared, as warnings. The original says nothing of it.
namespace msitd::msit_command {

// Files that could not be read: the first ones, and how many for each reason.
void WarnOfProblems(const fill::ImportProblems& problems, Logger& log);

// Tensors of an import that ended which gave way to others of their names.
void WarnOfConflicts(const fill::ImportJob& import, Logger& log);

// Tensors that belong to none, by reason, those that lack theirs as warnings.
// `prefix` is in front of each line.
void TellOfLeft(const std::vector<match::LeftTensors>& all,
                std::string_view prefix, Logger& log);

// The same, behind the notes of the mapping. So many conversions that GE put in
// are compared with themselves, and are not told.
void TellOfMapping(const match::Mapping& mapping, size_t self_compared_count,
                   std::string_view prefix, Logger& log);

// Tensors that belong to none, less those that are compared with themselves.
std::vector<match::LeftTensors> LeftOf(const match::Mapping& mapping,
                                       size_t self_compared_count);

}  // namespace msitd::msit_command
