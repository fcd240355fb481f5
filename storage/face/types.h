// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/base/stream_coverage.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"

// The values that go in and out of a store.
namespace msitd::storage {

// Identifies a run for good: the number of a deleted run is not given again.
enum class RunId : uint64_t {};

struct RunSpec {
  std::string name;
  int32_t world_size = 0;  // 0: not known yet.
  std::map<std::string, std::string> labels;
  // The launch that the run belongs to; empty while no producer has named one.
  std::string job = {};
  // Who made the run; see v1::Run. Empty: it is from before runs had owners.
  std::string owner = {};
  // True until all of an archived run is there; see Runs::EndRestore.
  bool restoring = false;
  // True if an admin makes the run, who may use the room that is kept for
  // admins. Not stored.
  bool is_for_admin = false;
};

struct RunCounters {
  uint64_t tensor_count = 0;  // Those with missing parts included.
  uint64_t payload_bytes = 0;
  uint64_t duplicate_count = 0;  // Records that were sent again, equal.
  uint64_t conflict_count =
      0;  // Records that were sent again with other bytes.
  // Records that producers gave up; see StreamCoverage.
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  // Parts that came before the first part of their tensor.
  uint64_t headless_count = 0;
  int64_t token_end = 0;       // The highest token of a tensor, plus 1.
  uint64_t expired_bytes = 0;  // Of payload_bytes, those given up.
  // Values and documents; tensor_count does not count them.
  uint64_t value_count = 0;
  // Of these, the documents that came since they are counted.
  uint64_t document_count = 0;
  // Records of kind statistics; none of the two above counts them.
  uint64_t statistics_count = 0;
  // Of payload_bytes, those in segments whose files are not there.
  uint64_t missing_bytes = 0;
  // Places in the log of the store whose frames the index does not have: a
  // segment that is missing, or frames that are damaged. It is unknown whether
  // tensors of the run were in them.
  uint64_t unread_place_count = 0;
  // Records that were to have the bytes of a record that is not there, and were
  // not kept.
  uint64_t dangling_count = 0;

  // Records of any kind.
  uint64_t record_count() const {
    return tensor_count + value_count + statistics_count;
  }
  uint64_t kept_bytes() const { return payload_bytes - expired_bytes; }
};

// How many tensors of a stream the run did not take, or took on trust. Of those
// that it already had, the first ones stay.
struct StreamRepeats {
  uint64_t repeated_count = 0;
  uint64_t conflict_count = 0;  // Of these, those with other bytes.
  // Not among these: see RunCounters.
  uint64_t dangling_count = 0;
  // Taken: tensors whose summary and hash the producer made; of those, parts
  // that came with their bytes, and of these, parts with another digest.
  uint64_t claimed_count = 0;
  uint64_t checked_count = 0;
  uint64_t false_count = 0;

  friend bool operator==(const StreamRepeats&, const StreamRepeats&) = default;
};

// What became of the tensors of one rank, over all its streams.
struct RankCoverage {
  int32_t rank = 0;
  uint64_t stream_count = 0;  // Those that reported any.
  StreamCoverage total;
  StreamRepeats repeats = {};

  // Records that were handed over for storage, as far as the streams have
  // reported. A client that died may have handed over more.
  uint64_t requested_count() const {
    return total.seen_count - std::min(total.seen_count, total.filtered_count);
  }

  // Records that were handed over and that the run either has or has a reason
  // to lack. The run has `stored_count` records of the rank, and parts of
  // `incomplete_count` others. Most truncated records are stored in part.
  uint64_t AccountedCount(uint64_t stored_count,
                          uint64_t incomplete_count) const {
    return stored_count + std::max(incomplete_count, total.truncated_count) +
           repeats.repeated_count + repeats.dangling_count +
           total.dropped_count;
  }

  friend bool operator==(const RankCoverage&, const RankCoverage&) = default;
};

// When bytes of tensors are given up. Their summaries and hashes stay. 0 is no
// limit.
struct RetentionLimits {
  uint64_t bytes_max = 0;   // Payload.
  int64_t age_max_ns = 0;   // Since it was received.
  int64_t token_count = 0;  // The highest tokens of the run.

  friend bool operator==(const RetentionLimits&,
                         const RetentionLimits&) = default;
};

// What a run asks for.
struct RunRetention {
  bool pinned = false;     // Nothing is given up, whatever the limits.
  RetentionLimits limits;  // A limit that is not 0 replaces the node's.

  friend bool operator==(const RunRetention&, const RunRetention&) = default;
};

// What the node asks for.
struct RetentionPolicy {
  uint64_t disk_bytes_max = 0;  // Of segments and index; 0 is no limit.
  uint64_t disk_free_min = 0;   // Of the file system.
  // Once the disk has passed one of these two limits, bytes go until it is so
  // many hundredths of the limit behind it. Then it rests until the limit is
  // passed again.
  uint64_t disk_margin_percent = 0;
  RetentionLimits run;  // For runs that set no limit of their own.
};

// What one step did.
struct RetentionStep {
  uint64_t expired_bytes = 0;
  bool is_done = true;  // Nothing is left to do now.
  // Bytes on the disk beyond what the policy of the node allows. Still above 0
  // when done if only pinned runs and the heads of frames are left.
  uint64_t excess_bytes = 0;
};

// What one step of sharing did.
struct ShareStep {
  uint64_t shared_bytes = 0;  // Given back to the file system.
  bool is_done = true;        // Nothing is left to do now.
};

// How the check of stored bytes goes on.
struct VerifyPolicy {
  uint64_t bytes_max = 0;   // That one step reads, and at most one frame more.
  int64_t interval_ns = 0;  // From the end of a round to the begin of the next.
};

// What one step of it did.
struct VerifyStep {
  uint64_t frame_count = 0;
  uint64_t bytes = 0;
  bool is_done = true;  // No round is under way.
};

// A place in a segment that does not hold what was written.
struct VerifyFinding {
  std::string segment;  // The name of the file.
  uint64_t offset = 0;  // Of the frame, or of the gap.
  std::string run;      // Empty, like all that follows, if that cannot be told.
  int32_t rank = 0;
  // True if the bytes came through memory that the producer could change.
  bool may_be_producer = false;
  std::string problem;  // For people.
};

struct VerifyStats {
  static constexpr size_t kFindingsShown = 32;

  uint64_t frame_count = 0;  // Since Open, like the bytes.
  uint64_t bytes = 0;
  uint64_t remaining_bytes = 0;  // Of the round under way.
  int64_t round_end_ns = 0;      // Since the Unix epoch; 0 if none ended.
  uint64_t finding_count = 0;
  std::vector<VerifyFinding> findings;  // The first ones.
};

// A segment that the index names and whose file is not there, or ends before
// its last acknowledged byte.
struct MissingSegment {
  static constexpr size_t kRunsShown = 16;

  std::string segment;            // Name of the file.
  uint64_t bytes = 0;             // Payload that should be readable.
  std::vector<std::string> runs;  // That it belongs to; the first ones.
};

// Segments that are missing now; see MissingSegment.
struct MissingSegments {
  static constexpr size_t kSegmentsShown = 32;

  uint64_t count = 0;
  uint64_t bytes = 0;
  std::vector<MissingSegment> first;  // By number.
};

struct RunInfo {
  RunId id{};
  RunSpec spec;
  bool sealed = false;
  int64_t create_time_ns = 0;  // Since the Unix epoch.
  int64_t seal_time_ns = 0;    // 0 while active.
  RunRetention retention;
  std::string capture_policy;  // Opaque; empty if there is none.
  RunCounters counters;
};

// Where a part first lay, in numbers of the store that gave it. Other code may
// only compare places: a part that came later compares greater.
struct PartPlace {
  uint64_t file = 0;
  uint64_t offset = 0;

  friend auto operator<=>(const PartPlace&, const PartPlace&) = default;
};

// One part of a tensor: kPartBytes of it, or what is left. A reader finds the
// bytes by this, and checks them.
//
// 64 bytes large on purpose. Most tensors have one part, so malloc keeps blocks
// of this size for each of them. Blocks of 56 bytes, which are enough, it also
// gives to other short-lived things: the parts of neighbours are then spread
// over the memory, and comparing tensors of equal hashes takes 6 to 16 % more
// CPU time.
struct alignas(16) PartInfo {
  PartPlace place;
  uint64_t bytes = 0;
  ContentHash hash;
  // False if the part never had bytes, because the capture policy asked for
  // less.
  bool has_bytes = true;
  // True if its sample is kept in place of its bytes; see protos/base/sample.h.
  bool has_sample = false;
  uint64_t sample_hash = 0;
};
static_assert(sizeof(PartInfo) == 64);

// A run with more placements cannot list them, so it is not compared by them.
inline constexpr size_t kRunPlacementsMax = size_t{1} << 16;

// Names a record of the same run, rank, device and token.
struct AliasOf {
  std::string op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string index;

  friend bool operator==(const AliasOf&, const AliasOf&) = default;
};

// A tensor, or a record of another kind.
struct TensorInfo {
  TensorKey key;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  uint64_t tensor_bytes = 0;
  uint64_t sequence = 0;
  Summary summary;  // Of the whole tensor: its parts merged in order.
  ContentHash hash;
  // False if bytes of it were given up, or not kept in the first place.
  bool has_bytes = false;
  // True if it has no bytes but ReadSample gives its sample.
  bool has_sample = false;
  std::vector<PartInfo> parts;
  // True if summary and hash are, at least in part, what the producer says they
  // are: it sent no bytes.
  bool is_claimed = false;
  std::string placement = {};  // Of a shard; see protos/base/placement.h.
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};  // Nothing: unknown.
  std::string value = {};                  // Of a value, or of statistics.
  std::string stack = {};                  // Empty: unknown.
  // The record whose bytes these are, if it came with none of its own.
  std::optional<AliasOf> alias_of = {};
};

// One (rank, device, token) at which a run has tensors.
struct Coordinate {
  int32_t rank = 0;
  std::string device;
  int64_t token = 0;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

// What the index has done to keep its files in order, since it was opened.
struct CompactionStats {
  uint64_t count = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t duration_ns = 0;
  uint64_t pending_bytes = 0;  // That wait for a compaction, by estimate.
  bool is_paused = false;      // Compactions wait for room on the disk.
};

struct StoreStats {
  uint64_t segment_count = 0;
  uint64_t segment_bytes = 0;  // On disk, without what was given back.
  uint64_t index_bytes = 0;
  uint64_t run_count = 0;
  uint64_t committed_chunk_count = 0;  // Since Open, like all that follow.
  uint64_t committed_record_count = 0;
  uint64_t committed_bytes = 0;  // Payload.
  uint64_t duplicate_count = 0;
  uint64_t conflict_count = 0;
  uint64_t checked_digest_count = 0;
  uint64_t false_digest_count = 0;
  uint64_t recovered_frame_count = 0;
  uint64_t torn_frame_count = 0;
  uint64_t disk_free_bytes = 0;
  // Places where frames that had been durable could not be read back at Open.
  uint64_t corrupt_frame_count = 0;
  // Payload given up, and RetentionStep::excess_bytes of the last step.
  uint64_t expired_bytes = 0;
  uint64_t excess_bytes = 0;
  // Why bytes are kept that are too old by the wall clock: the clock was set.
  // Empty if there are no such bytes.
  std::string retention_pause;
  // Bytes given back because equal parts share them; and parts that could not
  // share, because their hashes are equal but their bytes differ or cannot be
  // read.
  uint64_t shared_bytes = 0;
  uint64_t unequal_count = 0;
  // Runs that are pinned, and the payload that they keep.
  uint64_t pinned_run_count = 0;
  uint64_t pinned_bytes = 0;
  CompactionStats compaction;
  VerifyStats verify;
  // Bytes go because the disk passed a limit; see RetentionPolicy.
  bool is_making_room = false;
  // Includes segments whose frames the index does not have yet; their bytes and
  // runs are not known.
  MissingSegments missing;
  // Why the store accepts no chunks: it waits for files of segments, or it is
  // open for reading only. Empty if it accepts them.
  std::string refusal;
  bool is_read_only = false;
  // Of index_bytes, those of comparisons. Retention does not count them.
  uint64_t comparison_disk_bytes = 0;
};

}  // namespace msitd::storage
