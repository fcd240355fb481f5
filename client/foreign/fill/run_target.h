// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "client/foreign/fill/import_job.h"
#include "client/libmsit/core/client.h"
#include "msitd/v1/run_service.pb.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::fill {

// The run of a daemon that an import fills. Records are sent through shared
// memory if the endpoint is the daemon's socket on this machine with an ingest
// socket next to it, and otherwise by gRPC. Thread-compatible.
class RunTarget final : public ImportTarget {
 public:
  using ProgressSink =
      std::function<void(const ImportCounts&, int64_t problem_count)>;

  // Borrows `connection`. `patience` is as in ImportOptions. `on_progress` may
  // be null.
  RunTarget(ask::Connection& connection, std::string run,
            std::chrono::microseconds patience, ProgressSink on_progress);

  // The properties of the files that are known before they are read.
  struct Content {
    std::string source;  // As returned by trees::TreeKindName.
    int32_t world_size = 0;
    // The user specified it: an existing run must not have more ranks.
    bool is_world_size_said = false;
    // See trees::Tree::has_known_order. A run that is created for files without
    // an order has a label that records this (order_label.h). The label never
    // changes.
    bool has_known_order = true;
  };

  // Finds the run or creates it. An existing run must not have fewer ranks. A
  // run with a known order does not accept files without one.
  ask::Outcome Prepare(const Content& content);

  // Loads the ledger of earlier imports. Returns an error if the run contains
  // data that was not imported from `source`.
  ask::Outcome LoadLedger(const std::string& source, ImportLedger& ledger);

  // Applies to streams that are opened after this call.
  void set_buffer_bytes(uint64_t bytes) { buffer_bytes_ = bytes; }

  ask::Outcome Seal();

  // The current state of the run in the daemon.
  struct Standing {
    // CapturePolicy::revision.
    int64_t policy_revision = 0;
    int64_t conflict_count = 0;
  };
  absl::StatusOr<Standing> ReadStanding();

  absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) override;
  absl::Status Attach(const std::string& name, const std::string& media_type,
                      std::string_view bytes) override;
  bool is_interrupted() override;
  void OnProgress(const ImportCounts& counts, int64_t problem_count) override;

  const v1::Run& run() const { return run_; }

 private:
  // The deadline of a call that begins now. --timeout does not apply to the
  // import as a whole.
  std::chrono::system_clock::time_point Deadline() const;
  // Returns true if the run contained nothing when it was read.
  bool IsEmpty() const;
  ask::Outcome CheckOwner(const std::string& source);
  std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer>
  MakeTransport() const;

  ask::Connection& connection_;
  const std::string name_;
  const std::chrono::microseconds patience_;
  uint64_t buffer_bytes_ = uint64_t{64} << 20;
  v1::Run run_;
  bool has_ledger_ = false;
  const ProgressSink on_progress_;
};

}  // namespace msitd::fill
