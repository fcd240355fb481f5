// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/query/group_digest.h"
#include "storage/face/run_reader.h"

namespace msitd::peers {

// Passes the digests of a run that match the ranks, devices and tokens of a
// selector to `take`, in primary order, until `take` returns an error. Calls
// `stop` from time to time.
//
// Errors: UNIMPLEMENTED without a reason if the digests cannot be compared;
// those of RunReader.
using TakeDigest = std::function<absl::Status(const query::GroupDigest&)>;
using ReadDigests = std::function<absl::Status(
    const Selector& selector, storage::StopCheck stop, const TakeDigest& take)>;

// Reads the remote run `run`, but takes data that both runs have from `local`:
// all entries of each (rank, device, token) at which the runs are equal, and
// their bytes. A comparison of `run` with `local` has the same rows as without
// this reader.
//
// The digests of `run` are fetched by the first scan of the coordinates that
// ListCoordinates was called for. Earlier scans, and scans of other
// coordinates, read only `run`. Both runs must be sealed. `local` must outlive
// the reader. Entries have no stack and no original, because these may differ
// between equal runs.
//
// A local part has a location that no peer uses (kPeerFileEnd), so it is never
// requested from the peer. Parts of `run` are never looked up locally.
//
// Errors: those of `run`; UNAVAILABLE with SOURCE_FAILED if `local` has lost
// bytes that were used in place of those of `run`.
std::unique_ptr<storage::RunReader> MakeTwinReader(
    std::unique_ptr<storage::RunReader> run, ReadDigests read_digests,
    storage::RunReader& local);

}  // namespace msitd::peers
