// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ingest/chunk_path.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/ingest/ingest_options.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/run_keeper.h"
#include "daemon/metrics/latencies.h"
#include "protos/base/rank_activity.h"
#include "storage/face/chunk_log.h"
#include "storage/face/runs.h"

namespace msitd::ingest {

// Accepts the chunks of all streams, checks them, computes their digests and
// commits them to the store.
//
//   Offer: copy and check the head, check the sequence   (transport's thread)
//     -> summary and hash of each record                 (digest threads)
//     -> one Append of all ready chunks, one sync        (commit thread)
//     -> destroy the Lease, call StreamPeer::Commit      (commit thread)
//
// ChunkPath owns the open streams and these threads. RunKeeper owns the choice
// and the change of the runs that streams record into, and ends or waits for
// the streams of a run through ChunkPath.
//
// The problem: many ranks send chunks at the same time, and each chunk may be
// acknowledged only after it is durable. A sync per chunk would bound the rate
// of all streams by the latency of the disk. A segment per stream would need
// one sync per stream and would leave the store with many small files.
//
// The design: only one thread writes chunks to the store. It commits in groups,
// so that all chunks that are ready share one Append and one sync. Chunks
// become ready while a sync is in progress, so groups grow with the load and no
// timer is needed; `commit_interval` can enlarge groups further at the price of
// latency. Digests are independent of each other, so several threads compute
// them before the commit. They may finish in any order, but a stream commits in
// the order of its chunks. The pipeline does not copy payloads: they are
// written from the memory that the transport lends, which is returned only
// after the commit.
//
// The costs:
// - All streams share the fate of a commit. A slow sync delays every stream,
//   and `commit_bytes_max` bounds how long one Append takes. A run that is
//   sealed or deleted fails the Append of the whole group, which is then
//   repeated for each run separately.
// - Operations on runs have to be ordered with the writer, so opening, sealing
//   and deleting a run go through the pipeline as well. Such an operation waits
//   for commits only if its own run has chunks in flight, which keeps a disk
//   that hangs from blocking other callers.
// - Producers wait for the disk. Memory is bounded by the memory that
//   transports lend: the window of each stream plus one chunk. Heads are
//   copied, which adds at most the same amount again.
//
// Thread-safe.
class IngestPipeline final : public ChunkSink {
 public:
  // `runs` and `log` must outlive the pipeline.
  IngestPipeline(storage::Runs& runs, storage::ChunkLog& log,
                 const IngestOptions& options)
      : chunks_(log, options), keeper_(runs, log, chunks_, options) {}

  // Drains without a deadline.
  ~IngestPipeline() override {
    (void)Drain(std::chrono::steady_clock::time_point::max());
  }
  IngestPipeline(const IngestPipeline&) = delete;
  IngestPipeline& operator=(const IngestPipeline&) = delete;

  absl::StatusOr<Opened> Open(const StreamSpec& spec,
                              StreamPeer& peer) override {
    return keeper_.Open(spec, peer);
  }
  Offered Offer(const StreamHandle& stream, std::span<const std::byte> bytes,
                std::unique_ptr<Lease> lease) override {
    return chunks_.Offer(stream, bytes, std::move(lease));
  }
  Offered Offer(const StreamHandle& stream, chunk::Chunk chunk,
                std::unique_ptr<Lease> lease) override {
    return chunks_.Offer(stream, std::move(chunk), std::move(lease));
  }
  void ReportCoverage(const StreamHandle& stream,
                      const StreamCoverage& coverage,
                      int64_t token_end) override {
    chunks_.ReportCoverage(stream, coverage, token_end);
  }
  void NoteMemory(const StreamHandle& stream,
                  std::shared_ptr<const StreamMemory> memory) override {
    chunks_.NoteMemory(stream, std::move(memory));
  }
  void Finish(const StreamHandle& stream, const absl::Status& status) override {
    chunks_.Finish(stream, status);
  }

  // Creates, seals, deletes and changes runs while streams record.
  RunKeeper& runs() { return keeper_; }

  // Refuses new streams, ends all open streams with NOT_SERVING, and commits
  // their chunks in flight. Returns DEADLINE_EXCEEDED if this is not finished
  // by `deadline`.
  absl::Status Drain(std::chrono::steady_clock::time_point deadline) {
    return chunks_.Drain(deadline);
  }

  IngestStats Stats() { return chunks_.Stats(); }
  // Returns at most `limit` open streams whose run and rank sort after `after`,
  // in that order. Without `after`, starts with the first stream.
  std::vector<StreamStats> Streams(
      const std::optional<std::pair<std::string, int32_t>>& after,
      size_t limit) {
    return chunks_.Streams(after, limit);
  }
  // Time from the arrival of chunks to their acknowledgement.
  const metrics::Latencies& acks() const { return chunks_.acks(); }

  // Returns which ranks of the run stream, or when they last did.
  RunActivity ActivityOf(std::string_view run) {
    return chunks_.ActivityOf(run);
  }

 private:
  ChunkPath chunks_;
  RunKeeper keeper_;
};

}  // namespace msitd::ingest
