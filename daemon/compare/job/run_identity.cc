// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/run_identity.h"

#include <memory>
#include <string_view>

#include "protos/status/status.h"
#include "storage/face/run_id_text.h"
#include "storage/face/run_source_text.h"

namespace msitd::compare {
namespace {

absl::StatusOr<std::string> IdOf(storage::RunReaders& readers,
                                 const storage::RunAddress& run,
                                 const storage::WaitCheck& wait) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::RunReader> reader,
                         readers.OpenRunAt(run, wait));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, reader->GetInfo());
  return storage::RunIdText(info);
}

}  // namespace

absl::StatusOr<std::string> FindRunId(storage::RunReaders& readers,
                                      const storage::RunAddress& run,
                                      const storage::WaitCheck& wait) {
  // Opening the run also checks that its shares belong together.
  MSITD_ASSIGN_OR_RETURN(std::string out, IdOf(readers, run, wait));
  std::string_view rest = run.source;
  if (rest.find(storage::kSourceSeparator) == std::string_view::npos) {
    return out;
  }
  out.clear();
  while (true) {
    const size_t end = rest.find(storage::kSourceSeparator);
    const std::string_view source = rest.substr(0, end);
    const bool is_store = source == storage::kStoreSource;
    MSITD_ASSIGN_OR_RETURN(
        const std::string id,
        IdOf(readers, {std::string(is_store ? "" : source), run.name}, wait));
    out += id;
    if (end == std::string_view::npos) return out;
    out += storage::kSourceSeparator;
    rest.remove_prefix(end + 1);
  }
}

absl::Status CheckRunId(const storage::RunAddress& run, const std::string& id,
                        const std::string& found) {
  if (id.empty() || id == found) return absl::OkStatus();
  return WithReason(
      MakeStatus(absl::StatusCode::kFailedPrecondition,
                 "run {} was deleted after it was asked for, and another run "
                 "has its name now: ask again to compare that one",
                 run.name),
      ErrorReason::kRunReplaced);
}

}  // namespace msitd::compare
