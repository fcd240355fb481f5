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

// Writes records of one rank into the store in the same way as a producer.
// Apart from the memory of its chunk, which it holds from Add to Settle or
// Finish, a stream needs almost no memory. Thread-compatible; the sink must
// outlive it.
class RestoreStream final : public ingest::StreamPeer {
 public:
  // Opens a stream. If a stream with the same id was closed before, continues
  // it.
  static absl::StatusOr<std::unique_ptr<RestoreStream>> Open(
      ingest::ChunkSink& sink, const ingest::StreamSpec& spec);
  // Ends the stream and waits until the sink no longer uses it.
  ~RestoreStream();
  RestoreStream(const RestoreStream&) = delete;
  RestoreStream& operator=(const RestoreStream&) = delete;

  // Returns whether the record can be put into a chunk: its bytes are
  // available, or it needs none, or it has a single part that a digest can
  // represent.
  static bool CanAdd(const storage::TensorInfo& entry);

  // Adds a record. Blocks while the sink accepts no more chunks.
  absl::Status Add(const PartRecord& record);
  // Sends all added records, and returns when they are durable. Records that
  // other streams add after that are ordered after these.
  absl::Status Settle() ABSL_LOCKS_EXCLUDED(mu_);
  // Settles and closes the stream without a coverage report.
  absl::Status Close();
  // Reports the coverage of the rank's original producers, and returns when
  // everything is durable.
  absl::Status Finish(const StreamCoverage& coverage, int64_t token_end);

  void Commit(uint64_t count, uint64_t conflict_count) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void SetCapturePolicy(const std::string&) override {}
  void Resume() override ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  RestoreStream(ingest::ChunkSink& sink, const ingest::StreamSpec& spec);

  // Allocates memory for a chunk and begins the chunk.
  void Start(bool is_claimed);
  // Sends the records that were added.
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
