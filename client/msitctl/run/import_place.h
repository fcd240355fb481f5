// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/ask/query/outcome.h"
#include "client/foreign/fill/import_job.h"
#include "client/foreign/trees/name_pattern.h"
#include "client/foreign/trees/tree.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/run/import_result.pb.h"

// Functions shared by the verbs that import files of other tools into a run.
namespace msitd::msitctl {

// The run, and settings of the user that replace properties of the files.
struct ImportPlaceFlags {
  std::string run;
  std::string source;
  std::optional<int32_t> rank;
  std::optional<int64_t> token;
  std::optional<int32_t> world_size;
  std::string device;
  std::string prefix;
  std::string mapping_folder;
  std::string name_pattern;
};
void AddImportPlaceFlags(CLI::App& verb, ImportPlaceFlags& flags);

// Parses --source; nothing if it is not given.
ask::Outcome ReadSource(const ImportPlaceFlags& flags,
                        std::optional<trees::TreeKind>& kind);

// Parses --name-pattern; nothing if it is not given. `kind` is that of
// --source; with a pattern, it becomes kFiles.
ask::Outcome ReadNamePattern(const ImportPlaceFlags& flags,
                             std::optional<trees::TreeKind>& kind,
                             std::optional<trees::NamePattern>& pattern);

// Returns the world size of the run. The user's value takes precedence over
// that of the trees. 0 if there is neither.
int32_t WorldSizeOf(const ImportPlaceFlags& flags, int32_t of_trees);

fill::ImportOptions JobOptions(const ImportPlaceFlags& flags,
                               const Invocation& invocation);

// Converts the status that a job returned.
ask::Outcome OutcomeOfImport(const absl::Status& status);

// Fills in the counts of a job, but not its purpose.
void SetCounts(const fill::ImportJob& job, ImportResult& result);

// Returns the number of derived tensors, for the end of a line: `, 3 derived`;
// empty if there were none.
std::string KeptText(const ImportResult& result);

// Prints on stderr the entries that could not be imported.
void TellProblems(const fill::ImportProblems& problems);

// Prints on stderr the objects that were not imported, as far as they are
// known.
void PrintObjects(const ImportResult& result);

// Prints on stderr the tensors in conflict, as far as they are known.
void TellConflicts(const ImportResult& result);

}  // namespace msitd::msitctl
