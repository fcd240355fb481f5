// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/query/group_digest.h"
#include "storage/face/run_reader.h"

namespace msitd::fleet {

// Hands on the digests of a run that a selector's ranks, devices and tokens
// take, in primary order, until `take` returns an error. Asks `stop` meanwhile.
//
// Errors: UNIMPLEMENTED without a reason for digests that cannot be compared;
// those of RunReader.
using TakeDigest = std::function<absl::Status(const query::GroupDigest&)>;
using ReadDigests = std::function<absl::Status(
    const Selector& selector, storage::StopCheck stop, const TakeDigest& take)>;

// Reads `run`, which lies far away, and takes from `local` what both have: all
// entries of a (rank, device, token) at which they are equal, and the bytes
// that belong to them. Who compares `run` with `local` gets the same rows.
//
// The first scan of those coordinates that ListCoordinates was asked for
// fetches the digests of `run`; scans before that, or of others, read `run`
// alone. Both runs are sealed. `local` outlives the reader. Entries have no
// stack and no original, since runs may differ in them.
//
// A part that lies at hand has a place that no peer has (kPeerFileEnd), so it
// is never looked for far away; nor is a part of `run` looked for at hand.
//
// Errors: those of `run`; UNAVAILABLE with SOURCE_FAILED if `local` lost bytes
// that were taken for those of `run`.
std::unique_ptr<storage::RunReader> MakeTwinReader(
    std::unique_ptr<storage::RunReader> run, ReadDigests read_digests,
    storage::RunReader& local);

}  // namespace msitd::fleet
