// SPDX-License-Identifier: Apache-2.0
#include "storage/run_sources.h"

#include "protos/status/status.h"

namespace msitd::storage {

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenRun(
    std::string_view name) {
  return store_.OpenRun(name);
}

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenRunAt(
    const RunAddress& run) {
  for (const std::unique_ptr<RunSource>& source : sources_) {
    if (source->Takes(run.source)) return source->Open(run);
  }
  return store_.OpenRunAt(run);
}

}  // namespace msitd::storage
