// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/ingest/ingest_pipeline.h"

namespace msitd::ingest {

// A thread that holds two runs must acquire the run with the shorter name
// first, which prevents deadlocks.
class IngestPipeline::RunHold {
 public:
  RunHold(IngestPipeline& pipeline, std::string_view run);
  ~RunHold();
  RunHold(const RunHold&) = delete;
  RunHold& operator=(const RunHold&) = delete;

 private:
  IngestPipeline& pipeline_;
  const std::string run_;
};

absl::Status NotServing();
// Returns an error with the reason RUN_SEALED. `what` describes what happened
// to the run, such as "was sealed".
absl::Status RunSealed(std::string_view run, std::string_view what);

}  // namespace msitd::ingest
