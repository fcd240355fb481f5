// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/remote_source.h"

#include <algorithm>
#include <utility>

#include "daemon/peers/peer.h"
#include "daemon/peers/remote_run_reader.h"
#include "daemon/peers/twin_reader.h"
#include "protos/status/status.h"

namespace msitd::peers {

bool RemoteSource::Takes(std::string_view source) const {
  // Any other source with slashes is a URL.
  return source.starts_with("unix:") ||
         (source.find(':') != std::string_view::npos &&
          source.find('/') == std::string_view::npos);
}

absl::StatusOr<RemoteRunReaderParts> RemoteSource::OpenThere(
    const storage::RunAddress& run) {
  if (std::find(peers_.begin(), peers_.end(), run.source) == peers_.end()) {
    return WithReason(
        MakeStatus(absl::StatusCode::kPermissionDenied,
                   "this daemon may not read runs of {}: its configuration has "
                   "to name it in `peers`",
                   run.source),
        ErrorReason::kPeerRefused);
  }
  while (true) {
    MSITD_ASSIGN_OR_RETURN(PeerChannels::Lent lent, channels_.Lend(run.source));
    absl::StatusOr<RemoteRunReaderParts> out = OpenRemoteRun(
        std::make_shared<Peer>(run.source, std::move(lent.channel), timeout_),
        run.name);
    // Each iteration removes one of the kept connections.
    if (lent.is_new || !absl::IsUnavailable(out.status())) return out;
  }
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> RemoteSource::Open(
    const storage::RunAddress& run, const storage::WaitCheck& /*wait*/) {
  MSITD_ASSIGN_OR_RETURN(RemoteRunReaderParts out, OpenThere(run));
  return std::move(out.reader);
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> RemoteSource::OpenBeside(
    const storage::RunAddress& run, storage::RunReader& beside,
    const storage::WaitCheck& wait) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, beside.GetInfo());
  // A run that still grows has no digests yet.
  if (!info.sealed) return Open(run, wait);
  MSITD_ASSIGN_OR_RETURN(RemoteRunReaderParts out, OpenThere(run));
  return MakeTwinReader(std::move(out.reader), std::move(out.read_digests),
                        beside);
}

}  // namespace msitd::peers
