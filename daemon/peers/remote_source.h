// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/peers/peer_channels.h"
#include "daemon/peers/peer_options.h"
#include "storage/face/run_reader.h"
#include "storage/run_sources.h"

namespace msitd::peers {

struct RemoteRunReaderParts;

// Gives access to the runs of other daemons: of the sources `host:port`,
// `[ipv6]:port` and `unix:PATH` that the configuration lists. Thread-safe.
class RemoteSource final : public storage::RunSource {
 public:
  // `peers` are the allowed sources. Requests must spell them identically.
  RemoteSource(std::vector<std::string> peers, PeerOptions options)
      : peers_(std::move(peers)),
        timeout_(options.timeout),
        channels_(std::move(options)) {}

  bool Takes(std::string_view source) const override;

  // Waits as long as PeerOptions::timeout, regardless of the caller.
  //
  // Errors: those of RunSource; those of OpenRemoteRun.
  absl::StatusOr<std::unique_ptr<storage::RunReader>> Open(
      const storage::RunAddress& run, const storage::WaitCheck& wait) override;

  // Reads equal data from `beside`; see MakeTwinReader.
  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenBeside(
      const storage::RunAddress& run, storage::RunReader& beside,
      const storage::WaitCheck& wait) override;

 private:
  // Opens a run on a kept connection, or on a new one if the kept one is dead.
  absl::StatusOr<RemoteRunReaderParts> OpenThere(
      const storage::RunAddress& run);

  const std::vector<std::string> peers_;
  const std::chrono::milliseconds timeout_;
  PeerChannels channels_;
};

}  // namespace msitd::peers
