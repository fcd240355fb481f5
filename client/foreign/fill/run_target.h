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

// The run of a daemon that an import fills. Records go through memory that is
// shared with the daemon if the endpoint is its socket on this machine and has
// an ingest socket beside it, else by gRPC. Thread-compatible.
class RunTarget final : public ImportTarget {
 public:
  using ProgressSink =
      std::function<void(const ImportCounts&, int64_t problem_count)>;

  // Borrows `connection`. `patience` as in ImportOptions; `on_progress`
  // may be null.
  RunTarget(ask::Connection& connection, std::string run,
            std::chrono::microseconds patience, ProgressSink on_progress);

  // What is known of the files before they are read.
  struct Content {
    std::string source;  // As trees::TreeKindName has it.
    int32_t world_size = 0;
    // The user says so: a run that is there must not have more ranks.
    bool is_world_size_said = false;
    // See trees::Tree::has_known_order. A run that is made for files without an
    // order says so by its label (order_label.h), which nothing changes later.
    bool has_known_order = true;
  };

  // Finds the run, or makes it. A run that is there must not have fewer ranks.
  // A run that claims an order must not get files without one.
  ask::Outcome Prepare(const Content& content);

  // Loads what former imports noted. Fails if what the run holds is not from
  // imports of `source`.
  ask::Outcome LoadLedger(const std::string& source, ImportLedger& ledger);

  // Of the streams that are opened from now on.
  void set_buffer_bytes(uint64_t bytes) { buffer_bytes_ = bytes; }

  ask::Outcome Seal();

  // What the daemon says of the run now.
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
  // Of a call that begins now. --timeout is not for the import as a whole.
  std::chrono::system_clock::time_point Deadline() const;
  // True if the run held nothing when it was asked for.
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
