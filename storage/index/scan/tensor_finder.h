// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/name/glob_names.h"
#include "storage/index/name/name_table.h"
#include "storage/index/scan/index_scan.h"
#include "storage/index/table/expiry_table.h"

namespace msitd::storage {

// Finds tensors in the primary index. Thread-safe.
class TensorFinder {
 public:
  TensorFinder(IndexDb& db, NameTable& names, ExpiryTable& expiry)
      : db_(db), names_(names), globs_(db), expiry_(expiry) {}

  // See RunReader for all methods. `run` is the run of the reader.
  absl::StatusOr<TensorInfo> Get(RunId run, const TensorKey& key);
  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(const ScannedRun& run,
                                                   const Selector& selector,
                                                   std::string_view position);
  absl::Status VisitCoordinates(
      RunId run, const Selector& selector,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit,
      const Coordinate* after = nullptr);
  absl::StatusOr<std::vector<int32_t>> ListRanks(RunId run);

 private:
  IndexDb& db_;
  NameTable& names_;
  GlobNames globs_;
  ExpiryTable& expiry_;
};

// Returns NOT_FOUND with TENSOR_NOT_FOUND.
absl::Status TensorNotFound(const TensorKey& key);

}  // namespace msitd::storage
