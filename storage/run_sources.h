// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/run_source_text.h"

namespace msitd::storage {

// Opens runs of one kind of source outside the store. Thread-safe. Must outlive
// the readers that it opens.
class RunSource {
 public:
  virtual ~RunSource() = default;

  // True if `source` is of this kind, whether or not it may be read.
  virtual bool Takes(std::string_view source) const = 0;

  // Opens a run of a source for which Takes returns true. May block for as long
  // as `wait`, which also applies to the reader, or the source permits.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND if the source has no run with that
  // name; PERMISSION_DENIED if the configuration does not allow the source;
  // UNAVAILABLE if it cannot be reached.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> Open(
      const RunAddress& run, const WaitCheck& wait) = 0;

  // As Open, for callers that also read `beside`, a run of the store: the
  // reader may use data that both runs have from there. `beside` must outlive
  // the reader.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenBeside(
      const RunAddress& run, RunReader& /*beside*/, const WaitCheck& wait) {
    return Open(run, wait);
  }
};

// Opens runs of a store and of sources outside it. A run whose ranks are spread
// over several of them is opened as a single run. Thread-safe. The store must
// outlive this object.
class SourcedRunReaders final : public RunReaders {
 public:
  SourcedRunReaders(RunReaders& store,
                    std::vector<std::unique_ptr<RunSource>> sources)
      : store_(store), sources_(std::move(sources)) {}

  absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(
      std::string_view name) override;
  // Errors: also those of the source.
  absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAt(
      const RunAddress& run, const WaitCheck& wait) override;
  absl::StatusOr<std::unique_ptr<RunReader>> OpenRunBeside(
      const RunAddress& run, RunReader& beside, const WaitCheck& wait) override;

 private:
  absl::StatusOr<std::unique_ptr<RunReader>> OpenOne(const RunAddress& run,
                                                     const WaitCheck& wait);
  absl::StatusOr<std::unique_ptr<RunReader>> OpenShares(const RunAddress& run,
                                                        const WaitCheck& wait);

  RunReaders& store_;
  const std::vector<std::unique_ptr<RunSource>> sources_;
};

}  // namespace msitd::storage
