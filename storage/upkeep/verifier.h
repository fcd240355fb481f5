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

// Reads what is stored again and compares it with its hashes, in rounds over
// all segments that take no more frames, so that bytes that go bad are known
// before somebody asks for them.
//
// Bytes that nobody can ask for do not count: those of deleted runs, those that
// were given up, copies whose bytes are shared with a later place, and records
// that the index does not name.
//
// Single-sequence: under the lock of retention, so that no bytes go while they
// are looked at.
class Verifier {
 public:
  // Findings that are kept; more are counted with the last.
  static constexpr size_t kFindingsMax = 4096;

  // `direct`: past the page cache, which may hold other bytes than the disk.
  Verifier(ChunkIndex& index, Env& env, std::string segment_directory,
           bool direct)
      : index_(index),
        env_(env),
        segment_directory_(std::move(segment_directory)),
        direct_(direct) {}

  // Looks at the segments below `sealed_end`, from where the last step ended.
  // Begins a round only if the last one ended at least `policy.interval_ns`
  // ago. Stops behind the frame that exceeds `policy.bytes_max`.
  // `may_write`: the mark in the index may be moved on.
  //
  // Errors: those of the file system and of the index. The next call goes on
  // behind a segment that cannot be read.
  absl::StatusOr<VerifyStep> Step(const VerifyPolicy& policy,
                                  uint64_t sealed_end, bool may_write);

  // What is known; `findings` has the first kFindingsShown.
  VerifyStats Stats() const;
  // The segment that is looked at next, and from where on; 0 between rounds.
  uint64_t segment() const { return segment_; }
  uint64_t offset() const { return offset_; }

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // Segment and offset.
  struct Found {
    VerifyFinding finding;
    RunId run{};
    uint64_t round = 0;  // The last one that saw it.
  };

  absl::Status Load();
  absl::Status BeginSegment(uint64_t sealed_end);
  absl::Status LookInSegment(uint64_t bytes_max, VerifyStep& step);
  absl::Status LookAtFrame(File& file, const FoundFrame& frame,
                           VerifyStep& step);
  // Returns the number of the first record whose bytes are missing or wrong,
  // although somebody may ask for them.
  absl::StatusOr<std::optional<size_t>> FirstBad(const FoundFrame& frame,
                                                 RunId run);
  absl::StatusOr<bool> IsNeeded(const FoundFrame& frame, RunId run,
                                const chunk::RecordDescriptor& record,
                                const chunk::FramePayload::Place& place);
  // Notes what is wrong with the file, not with the bytes of a run.
  void NoteFile(uint64_t offset, std::string_view problem);
  void Note(uint64_t offset, RunId run, VerifyFinding finding);
  // Forgets what lay in runs that have gone.
  void ForgetGone();
  void EndRound();
  void KeepMark(bool may_write);

  ChunkIndex& index_;
  Env& env_;
  const std::string segment_directory_;
  const bool direct_;

  bool is_loaded_ = false;
  bool must_begin_ = false;  // A round is due, however long ago the last was.
  uint64_t round_ = 1;
  uint64_t segment_ = 0;  // 0: no round is under way.
  uint64_t offset_ = 0;
  uint64_t sequence_min_ = 0;  // Of the frames behind offset_.
  uint64_t known_end_ = 0;     // Frames below are durable.
  int64_t round_end_ns_ = 0;
  bool has_unkept_mark_ = false;
  VerifyStats stats_;
  std::map<Place, Found> found_;
  AlignedBuffer payload_;
};

}  // namespace msitd::storage
