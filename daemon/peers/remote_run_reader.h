// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/peers/twin_reader.h"
#include "storage/face/run_reader.h"

namespace msitd::peers {

class Peer;

// Opens a run of a peer. The reader fulfills the contract of RunReader: it
// refers to the run that has the name now, validates all received data, and
// resumes if the peer becomes available again in time. All errors name the
// endpoint.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND; FAILED_PRECONDITION if the run is not
// sealed; those of Peer.
struct RemoteRunReaderParts {
  std::unique_ptr<storage::RunReader> reader;
  ReadDigests read_digests;  // Valid as long as the reader.
};
absl::StatusOr<RemoteRunReaderParts> OpenRemoteRun(std::shared_ptr<Peer> peer,
                                                   std::string_view run);

}  // namespace msitd::peers
