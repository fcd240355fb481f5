// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/ask/query/outcome.h"
#include "client/foreign/fill/import_job.h"
#include "client/foreign/trees/tree.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/run/import_result.pb.h"

// What verbs that bring files of other tools into a run have alike.
namespace msitd::msitctl {

// The run, and what the user says of the files in place of what they say.
struct ImportPlaceFlags {
  std::string run;
  std::string source;
  std::optional<int32_t> rank;
  std::optional<int64_t> token;
  std::optional<int32_t> world_size;
  std::string device;
  std::string prefix;
  std::string mapping_folder;
};
void AddImportPlaceFlags(CLI::App& verb, ImportPlaceFlags& flags);

// Reads --source; nothing if it is not given.
ask::Outcome ReadSource(const ImportPlaceFlags& flags,
                        std::optional<trees::TreeKind>& kind);

// Of the run. What the user says goes before what the trees say, 0 if nothing.
int32_t WorldSizeOf(const ImportPlaceFlags& flags, int32_t of_trees);

fill::ImportOptions JobOptions(const ImportPlaceFlags& flags,
                               const Invocation& invocation);

// Of what a job returned.
ask::Outcome OutcomeOfImport(const absl::Status& status);

// Fills in what a job did, but not what it was for.
void SetCounts(const fill::ImportJob& job, ImportResult& result);

// What a function kept, for the end of a line: `, 3 derived`; empty if there
// was none.
std::string KeptText(const ImportResult& result);

// Says on stderr what could not be taken.
void TellProblems(const fill::ImportProblems& problems);

// Says on stderr which tensors are in conflict, as far as that is known.
void TellConflicts(const ImportResult& result);

}  // namespace msitd::msitctl
