// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/chunk/frame_payload.h"
#include "protos/os/aligned_buffer.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {

// Reads stored bytes again and compares them with their hashes, in rounds over
// all segments that receive no more frames, so that corrupted bytes are
// detected before they are requested.
//
// Ignores bytes that can no longer be requested: those of deleted runs,
// discarded bytes, copies whose bytes are shared with a later place, and
// records that the index does not refer to.
//
// Must be used by one thread at a time, under the retention lock, so that bytes
// are not discarded while they are read.
class Verifier {
 public:
  // Maximum number of findings that are stored; further ones are counted with
  // the last.
  static constexpr size_t kFindingsMax = 4096;

  // `direct`: bypass the page cache, whose contents may differ from the disk.
  Verifier(ChunkIndex& index, Env& env, std::string segment_directory,
           bool direct)
      : index_(index),
        env_(env),
        segment_directory_(std::move(segment_directory)),
        direct_(direct) {}

  // Verifies the segments below `sealed_end`, starting where the last step
  // ended. Begins a round only if the last one ended at least
  // `policy.interval_ns` ago. Stops after the frame that exceeds
  // `policy.bytes_max`. `may_write`: the mark in the index may be updated.
  //
  // Errors: those of the file system and of the index. The next call continues
  // after a segment that cannot be read.
  absl::StatusOr<VerifyStep> Step(const VerifyPolicy& policy,
                                  uint64_t sealed_end, bool may_write);

  // Current state; `findings` has the first kFindingsShown.
  VerifyStats Stats() const;
  // The segment to verify next, and the offset in it; 0 between rounds.
  uint64_t segment() const { return segment_; }
  uint64_t offset() const { return offset_; }

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // Segment and offset.
  struct KeptFinding {
    VerifyFinding finding;
    RunId run{};
    uint64_t round = 0;  // The last round that found it.
  };

  absl::Status Load();
  absl::Status BeginSegment(uint64_t sealed_end);
  absl::Status LookInSegment(uint64_t bytes_max, VerifyStep& step);
  absl::Status LookAtFrame(File& file, const FoundFrame& frame,
                           VerifyStep& step);
  // Returns the number of the first record whose bytes are missing or wrong
  // although they may be requested.
  absl::StatusOr<std::optional<size_t>> FirstBad(const FoundFrame& frame,
                                                 RunId run);
  absl::StatusOr<bool> IsNeeded(const FoundFrame& frame, RunId run,
                                const chunk::RecordDescriptor& record,
                                const chunk::FramePayload::RecordBytes& place);
  // Records a fault of the file, not of the bytes of a run.
  void NoteFile(uint64_t offset, std::string_view problem);
  void Note(uint64_t offset, RunId run, VerifyFinding finding);
  // Drops findings in deleted runs.
  void ForgetGone();
  void EndRound();
  void KeepMark(bool may_write);

  ChunkIndex& index_;
  Env& env_;
  const std::string segment_directory_;
  const bool direct_;

  bool is_loaded_ = false;
  bool must_begin_ = false;  // A round is due, regardless of when the last one
                             // ended.
  uint64_t round_ = 1;
  uint64_t segment_ = 0;  // 0 if there is no current round.
  uint64_t offset_ = 0;
  uint64_t sequence_min_ = 0;  // For the frames after offset_.
  uint64_t known_end_ = 0;     // Frames before it are durable.
  int64_t round_end_ns_ = 0;
  bool has_unkept_mark_ = false;
  VerifyStats stats_;
  std::map<Place, KeptFinding> found_;
  AlignedBuffer payload_;
};

}  // namespace msitd::storage
