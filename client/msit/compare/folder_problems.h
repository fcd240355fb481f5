// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/import/job/import_problems.h"
#include "client/match/mapping.h"
#include "client/msit/logger.h"

// What is not compared, as warnings. The original says nothing of it.
namespace msitd::msit {

// Files that could not be read: the first ones, and how many for each reason.
void WarnOfProblems(const job::ImportProblems& problems, Logger& log);

// Tensors that belong to none, by reason, those that lack theirs as warnings.
// `is_self_compared`: what GE put in is compared with itself, and not told.
void TellOfLeft(const match::Mapping& mapping, bool is_self_compared,
                Logger& log);

}  // namespace msitd::msit
