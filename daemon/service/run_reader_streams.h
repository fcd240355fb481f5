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

// What the calls of RunReaderService send, message by message.
namespace msitd::service {

// A message is sent once it has so many bytes, or one thing that has more; or a
// whole batch of entries.
inline constexpr size_t kRunReaderMessageBytes = size_t{1} << 20;
// Or so many ranks and the like, coordinates, digests.
inline constexpr size_t kDetailsPerMessage = 8192;
inline constexpr size_t kCoordinatesPerMessage = size_t{1} << 15;
inline constexpr size_t kDigestsPerMessage = 4096;
// Or once the search for it took so long.
inline constexpr std::chrono::milliseconds kRunReaderMessageTime{100};

// A scan that has been open for so long is begun anew where it is, so that the
// index need not keep its old state for a peer that reads slowly.
inline constexpr std::chrono::seconds kScanTimeMax{10};

// Most parts of one request. No file is so large that a part lies behind the
// offset.
inline constexpr int kReadPartsMax = 1000;
// Counts for a sample in a message, whatever it has.
inline constexpr uint64_t kSampleCost = 4096;
inline constexpr uint64_t kPartOffsetMax = uint64_t{1} << 60;

// Opens a run of the store, and checks that it is the one that `run_id` stands
// for; an empty one stands for any.
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

// Returns the part that an address names.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID if there can be no such part.
absl::StatusOr<storage::PartInfo> ToPart(const v1::PartAddress& address);

// Each opens the run with its first message. `readers` outlives them.
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
