// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::testing {

// Queries runs by name. Opens the run again for each query and keeps the
// readers, for scans and batches, until it is destroyed. Thread-safe.
class NamedRuns {
 public:
  // `readers` must outlive this object.
  explicit NamedRuns(storage::RunReaders& readers) : readers_(readers) {}

  absl::StatusOr<storage::RunReader*> Open(std::string_view run) {
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<storage::RunReader> reader,
                           readers_.OpenRun(run));
    const MutexLock lock(mu_);
    return open_.emplace_back(std::move(reader)).get();
  }

  absl::StatusOr<storage::TensorInfo> GetTensor(const TensorKey& key) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(key.run));
    return reader->GetTensor(key);
  }

  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      std::string_view run, Selector selector, std::string_view position) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->Scan(std::move(selector), position);
  }

  absl::StatusOr<std::vector<storage::Coordinate>> ListCoordinates(
      std::string_view run, const Selector& selector) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->ListCoordinates(selector);
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks(std::string_view run) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->ListRanks();
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements(
      std::string_view run) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->ListPlacements();
  }

  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage(
      std::string_view run) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->ListCoverage();
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      std::string_view run, const storage::PartInfo& part,
      AlignedBuffer& buffer) {
    MSITD_ASSIGN_OR_RETURN(auto* const reader, Open(run));
    return reader->ReadPart(part, buffer);
  }

 private:
  storage::RunReaders& readers_;
  Mutex mu_;
  std::vector<std::unique_ptr<storage::RunReader>> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::testing
