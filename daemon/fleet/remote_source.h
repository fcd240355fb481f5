// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/fleet/peer_channels.h"
#include "daemon/fleet/peer_options.h"
#include "storage/face/run_reader.h"
#include "storage/run_sources.h"

namespace msitd::fleet {

struct RemoteRunReaderParts;

// Runs of other daemons: of sources `host:port`, `[ipv6]:port` and `unix:PATH`
// that the configuration names. Thread-safe.
class RemoteSource final : public storage::RunSource {
 public:
  // `peers` are the sources that may be read, spelled as they are asked for.
  RemoteSource(std::vector<std::string> peers, PeerOptions options)
      : peers_(std::move(peers)),
        timeout_(options.timeout),
        channels_(std::move(options)) {}

  bool Takes(std::string_view source) const override;

  // Waits as long as PeerOptions::timeout says, whoever asks.
  //
  // Errors: those of RunSource; those of OpenRemoteRun.
  absl::StatusOr<std::unique_ptr<storage::RunReader>> Open(
      const storage::RunAddress& run, const storage::WaitCheck& wait) override;

  // Takes from `beside` what is equal there; see MakeTwinReader.
  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenBeside(
      const storage::RunAddress& run, storage::RunReader& beside,
      const storage::WaitCheck& wait) override;

 private:
  // Opens a run on a connection that others have used, and on a new one if that
  // is dead.
  absl::StatusOr<RemoteRunReaderParts> OpenThere(
      const storage::RunAddress& run);

  const std::vector<std::string> peers_;
  const std::chrono::milliseconds timeout_;
  PeerChannels channels_;
};

}  // namespace msitd::fleet
