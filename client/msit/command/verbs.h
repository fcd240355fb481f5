// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msit/command/verb_table.h"

namespace msitd::msit_command {

// Each function adds the verbs of one group. Verbs that need the libraries of
// the accelerator are rejected with an alternative.
void AddLlmVerbs(VerbTable& table);
void AddDebugVerbs(VerbTable& table);
void AddDebugDump(VerbTable& table, CLI::App& debug);
void AddViewVerb(VerbTable& table);
void AddComponentVerbs(VerbTable& table);

// Verbs of `llm` that run a command.
void AddAtbDump(VerbTable& table, CLI::App& llm);
void AddLogitsDump(VerbTable& table, CLI::App& llm);

}  // namespace msitd::msit_command
