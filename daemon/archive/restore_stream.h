// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/archive/rank_records.h"
#include "daemon/ingest/chunk_sink.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"

namespace msitd::archive {

// Puts records of one rank into the store as a producer does. Without the
// memory of its chunk, which it has from Add to Settle or Finish, it costs next
// to nothing. Thread-compatible; the sink outlives it.
class RestoreStream final : public ingest::StreamPeer {
 public:
  // Opens a stream. One of a stream id that was closed before goes on where
  // that one ended.
  static absl::StatusOr<std::unique_ptr<RestoreStream>> Open(
      ingest::ChunkSink& sink, const ingest::StreamSpec& spec);
  // Ends the stream and waits until the sink has let go of it.
  ~RestoreStream();
  RestoreStream(const RestoreStream&) = delete;
  RestoreStream& operator=(const RestoreStream&) = delete;

  // True if the record can be put into a chunk: its bytes are there, or it
  // needs none, or it has one part, whose digest then stands for them.
  static bool CanAdd(const storage::TensorInfo& entry);

  // Takes a record; blocks while the sink wants no more.
  absl::Status Add(const PartRecord& record);
  // Hands over what was added, and returns once it is durable: what another
  // stream brings from then on was received later.
  absl::Status Settle() ABSL_LOCKS_EXCLUDED(mu_);
  // Settles and closes the stream, without a report.
  absl::Status Close();
  // Reports what the rank's producers once did, and returns once all is
  // durable.
  absl::Status Finish(const StreamCoverage& coverage, int64_t token_end);

  void Commit(uint64_t count, uint64_t conflict_count) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void SetCapturePolicy(const std::string&) override {}
  void Resume() override ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  RestoreStream(ingest::ChunkSink& sink, const ingest::StreamSpec& spec);

  // Gets memory for a chunk, and begins one.
  void Start(bool is_claimed);
  // Hands over what was added.
  absl::Status Flush();
  absl::Status AwaitRoom() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status AwaitEnd() ABSL_LOCKS_EXCLUDED(mu_);

  ingest::ChunkSink& sink_;
  const ingest::StreamSpec spec_;
  ingest::StreamHandle stream_;
  AlignedBuffer buffer_;
  std::optional<chunk::ChunkBuilder> builder_;
  uint64_t next_chunk_ = 0;
  bool is_claimed_ = false;
  uint64_t last_sequence_ = 0;  // Of a record.

  Mutex mu_;
  CondVar changed_;
  bool must_wait_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t committed_count_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::archive
