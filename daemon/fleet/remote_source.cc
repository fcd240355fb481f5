// SPDX-License-Identifier: Apache-2.0
#include "daemon/fleet/remote_source.h"

#include <algorithm>
#include <utility>

#include "daemon/fleet/peer.h"
#include "daemon/fleet/remote_run_reader.h"
#include "daemon/fleet/twin_reader.h"
#include "protos/status/status.h"

namespace msitd::fleet {

bool RemoteSource::Takes(std::string_view source) const {
  // Anything else with slashes is a URL.
  return source.starts_with("unix:") ||
         (source.find(':') != std::string_view::npos &&
          source.find('/') == std::string_view::npos);
}

absl::StatusOr<std::shared_ptr<Peer>> RemoteSource::Connect(
    const std::string& source) {
  if (std::find(peers_.begin(), peers_.end(), source) == peers_.end()) {
    return WithReason(
        MakeStatus(absl::StatusCode::kPermissionDenied,
                   "this daemon may not read runs of {}: its configuration has "
                   "to name it in `peers`",
                   source),
        ErrorReason::kPeerRefused);
  }
  MSITD_ASSIGN_OR_RETURN(std::shared_ptr<PeerChannel> channel,
                         channels_.Get(source));
  return std::make_shared<Peer>(source, std::move(channel), timeout_);
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> RemoteSource::Open(
    const storage::RunAddress& run, const storage::WaitCheck& /*wait*/) {
  MSITD_ASSIGN_OR_RETURN(std::shared_ptr<Peer> peer, Connect(run.source));
  MSITD_ASSIGN_OR_RETURN(RemoteRunReaderParts out,
                         OpenRemoteRun(std::move(peer), run.name));
  return std::move(out.reader);
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> RemoteSource::OpenBeside(
    const storage::RunAddress& run, storage::RunReader& beside,
    const storage::WaitCheck& wait) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, beside.GetInfo());
  // What grows has no digest yet.
  if (!info.sealed) return Open(run, wait);
  MSITD_ASSIGN_OR_RETURN(std::shared_ptr<Peer> peer, Connect(run.source));
  MSITD_ASSIGN_OR_RETURN(RemoteRunReaderParts out,
                         OpenRemoteRun(std::move(peer), run.name));
  return MakeTwinReader(std::move(out.reader), std::move(out.read_digests),
                        beside);
}

}  // namespace msitd::fleet
