// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/service/call/reactor.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "storage/face/run_reader.h"

// Sources of the messages of RunReaderService.
namespace msitd::service {

// A message is sent when it reaches this size. A single larger item, or a whole
// batch of entries, may exceed it.
inline constexpr size_t kRunReaderMessageBytes = size_t{1} << 20;
// A message is also sent when it has this many details (such as ranks),
// coordinates or digests.
inline constexpr size_t kDetailsPerMessage = 8192;
inline constexpr size_t kCoordinatesPerMessage = size_t{1} << 15;
inline constexpr size_t kDigestsPerMessage = 4096;
// A message is also sent when the search for its contents has taken this long.
inline constexpr std::chrono::milliseconds kRunReaderMessageTime{100};

// A scan that has been open for this long is restarted at its position, so that
// the index need not keep its old state for a slow peer.
inline constexpr std::chrono::seconds kScanTimeMax{10};

// Maximum number of parts per request. No file is so large that a part lies
// beyond kPartOffsetMax.
inline constexpr int kReadPartsMax = 1000;
// Number of bytes that a sample counts for in a message, in addition to its
// data.
inline constexpr uint64_t kSampleCost = 4096;
inline constexpr uint64_t kPartOffsetMax = uint64_t{1} << 60;

// Opens a run of the store, and checks that its id is `run_id`. An empty
// `run_id` matches any run.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND.
struct OpenedRun {
  std::unique_ptr<storage::RunReader> reader;
  storage::RunInfo info;
  std::string id;
};
absl::StatusOr<OpenedRun> OpenRunById(storage::RunReaders& readers,
                                      std::string_view run,
                                      std::string_view run_id);

// Returns the part with the given address.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID if no such part can exist.
absl::StatusOr<storage::PartInfo> ToPart(const v1::PartAddress& address);

// Each source opens the run with its first message. `readers` must outlive the
// sources.
std::unique_ptr<StreamSource<v1::DescribeRunResponse>> MakeDescription(
    storage::RunReaders& readers, const v1::DescribeRunRequest& request);
std::unique_ptr<StreamSource<v1::ListCoordinatesResponse>> MakeCoordinates(
    storage::RunReaders& readers, const v1::ListCoordinatesRequest& request);
std::unique_ptr<StreamSource<v1::ScanTensorsResponse>> MakeEntries(
    storage::RunReaders& readers, const v1::ScanTensorsRequest& request);
std::unique_ptr<StreamSource<v1::ReadPartsResponse>> MakeParts(
    storage::RunReaders& readers, const v1::ReadPartsRequest& request);
std::unique_ptr<StreamSource<v1::ListDigestsResponse>> MakeDigests(
    storage::RunReaders& readers, const v1::ListDigestsRequest& request);

}  // namespace msitd::service
