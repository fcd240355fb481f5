// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"
#include "storage/index/index_gate.h"
#include "storage/read/part_reader.h"
#include "storage/segment/segment_reader.h"

namespace msitd::storage {

// Opens runs of a store, whose tensors are in its index and whose bytes are in
// its segments. Thread-safe.
class StoredRunReaders final : public RunReaders {
 public:
  // `index` and `segments` must outlive this object.
  StoredRunReaders(IndexGate& index, SegmentReader& segments)
      : index_(index), parts_(index, segments) {}

  absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(
      std::string_view name) override;
  absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAsItIs(
      std::string_view name) override;

 private:
  class Reader;

  IndexGate& index_;
  PartReader parts_;
};

}  // namespace msitd::storage
