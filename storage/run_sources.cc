// SPDX-License-Identifier: Apache-2.0
#include "storage/run_sources.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protos/os/at_once.h"
#include "protos/status/status.h"
#include "storage/merge/merged_run_reader.h"

namespace msitd::storage {

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenRun(
    std::string_view name) {
  return store_.OpenRun(name);
}

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenRunAt(
    const RunAddress& run, const WaitCheck& wait) {
  return run.source.find(kSourceSeparator) == std::string::npos
             ? OpenOne(run, wait)
             : OpenShares(run, wait);
}

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenOne(
    const RunAddress& run, const WaitCheck& wait) {
  if (run.source == kStoreSource) return store_.OpenRun(run.name);
  for (const std::unique_ptr<RunSource>& source : sources_) {
    if (source->Takes(run.source)) return source->Open(run, wait);
  }
  return store_.OpenRunAt(run, wait);
}

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenShares(
    const RunAddress& run, const WaitCheck& wait) {
  std::vector<RunAddress> addresses;
  std::string_view left = run.source;
  while (true) {
    const size_t end = std::min(left.find(kSourceSeparator), left.size());
    if (end == 0 || addresses.size() == kMergedPlacesMax) {
      return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                   "'{}' is no list of sources", run.source),
                        ErrorReason::kFieldInvalid);
    }
    addresses.push_back({std::string(left.substr(0, end)), run.name});
    if (end == left.size()) break;
    left.remove_prefix(end + 1);
  }
  std::vector<std::optional<absl::StatusOr<std::unique_ptr<RunReader>>>> opened(
      addresses.size());
  // Relaxed, because a delay in visibility is harmless.
  std::atomic<bool> has_failed{false};
  ForEachAtOnce(addresses.size(), kSharesAtOnceMax, [&](size_t i) {
    if (has_failed.load(std::memory_order_relaxed)) return;
    opened[i] = OpenOne(addresses[i], wait);
    if (!opened[i]->ok()) has_failed.store(true, std::memory_order_relaxed);
  });
  std::vector<RunShare> shares;
  for (size_t i = 0; i < opened.size(); ++i) {
    // After an error, some of the remaining sources were not opened.
    if (!opened[i].has_value()) continue;
    if (!opened[i]->ok()) {
      return Annotate(opened[i]->status(), addresses[i].source);
    }
    shares.push_back({std::move(addresses[i].source), **std::move(opened[i])});
  }
  return MergeRun(run.name, std::move(shares));
}

absl::StatusOr<std::unique_ptr<RunReader>> SourcedRunReaders::OpenRunBeside(
    const RunAddress& run, RunReader& beside, const WaitCheck& wait) {
  if (run.source == kStoreSource ||
      run.source.find(kSourceSeparator) != std::string::npos) {
    return OpenRunAt(run, wait);
  }
  for (const std::unique_ptr<RunSource>& source : sources_) {
    if (source->Takes(run.source)) return source->OpenBeside(run, beside, wait);
  }
  return store_.OpenRunAt(run, wait);
}

}  // namespace msitd::storage
