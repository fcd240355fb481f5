// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ingest_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/named_runs.h"
#include "tests/support/producer.h"
#include "tests/unit/daemon/ingest/recording_peer.h"

namespace msitd::ingest {
namespace {

using testing::Aligned;
using ::testing::ElementsAre;
using testing::FakeStore;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::Producer;
using Offered = IngestPipeline::Offered;
using Code = absl::StatusCode;

absl::Status DiskError() {
  return WithReason(absl::UnavailableError("write: input/output error"),
                    ErrorReason::kStorageFailed);
}

class IngestPipelineTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart({}); }

  void Restart(const IngestOptions& options) {
    pipeline_.reset();
    pipeline_ = std::make_unique<IngestPipeline>(store_, store_, options);
  }

  static StreamSpec SpecOf(const Producer& producer, int32_t world_size = 8) {
    StreamSpec spec{producer.run(), producer.rank(), world_size,
                    producer.stream_id(), "test"};
    spec.caller = access::Daemon();
    return spec;
  }

  StreamHandle Open(const Producer& producer, RecordingPeer& peer,
                    uint64_t expected_count = 0) {
    const auto opened = pipeline_->Open(SpecOf(producer), peer);
    EXPECT_TRUE(opened.ok()) << Message(opened.status());
    EXPECT_EQ(opened->committed_chunk_count, expected_count);
    return opened->stream;
  }

  Offered Offer(const StreamHandle& stream, const std::string& chunk) {
    auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
    const auto bytes = lease->bytes(chunk.size());
    return pipeline_->Offer(stream, bytes, std::move(lease));
  }

  RecordingPeer& NewPeer() { return peers_.emplace_back(); }

  // Offers chunks until one blocks in an Append.
  void HangAppend(const StreamHandle& stream, Producer& producer) {
    store_.BlockAppends();
    Offer(stream, producer.Chunk(0));
    store_.AwaitAppend();
  }

  // Returns true if `work` returns within a generous time while appends are
  // blocked. Appends continue afterwards.
  bool ReturnsMeanwhile(const std::function<void()>& work) {
    std::future<void> done = std::async(std::launch::async, work);
    const bool is_done =
        done.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
    if (!is_done) store_.UnblockAppends();
    done.wait();
    return is_done;
  }

  size_t StoredCount(const std::string& run) {
    const auto info = store_.GetRun(run);
    return info.ok() ? info->counters.tensor_count : 0;
  }

  std::atomic<int> leases_ = 0;
  FakeStore store_;
  std::deque<RecordingPeer> peers_;
  std::unique_ptr<IngestPipeline> pipeline_;
};

TEST_F(IngestPipelineTest, CommitsEveryChunkAndGivesItsMemoryBack) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Offer(stream, producer.Chunk(i)), Offered::kMore);
  }
  pipeline_->Finish(stream, absl::OkStatus());
  EXPECT_TRUE(peer.AwaitEnd().ok());
  EXPECT_EQ(peer.commits().back(), 20u);
  const std::vector<uint64_t> commits = peer.commits();
  EXPECT_TRUE(std::is_sorted(commits.begin(), commits.end()));
  EXPECT_EQ(StoredCount("run"), 20u);
  EXPECT_EQ(leases_, 0);
  EXPECT_EQ(pipeline_->Stats().open_stream_count, 0u);
}

TEST_F(IngestPipelineTest, StampsSummaryAndHashOfEachRecord) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  const testing::ProducedTensor tensor{.op = "a", .values = {1, -3, 0.5}};
  Offer(stream, producer.Chunk(0, {tensor}));
  peer.AwaitCommit(1);
  const auto info =
      testing::NamedRuns(store_).GetTensor(producer.KeyOf(tensor));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->summary.count, 3u);
  EXPECT_EQ(info->summary.min, -3);
  EXPECT_EQ(info->summary.l1, 4.5);
  EXPECT_EQ(info->hash, chunk::HashBytes(
                            std::as_bytes(std::span(tensor.values.data(), 3))));
}

TEST_F(IngestPipelineTest, ChecksDigestsThatComeWithTheirBytes) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  testing::ProducedTensor honest{.op = "honest", .values = {1, -3, 0.5}};
  honest.digest = compute::DigestPart(std::as_bytes(std::span(honest.values)),
                                      DType::kFloat32);
  testing::ProducedTensor other_hash = honest;
  other_hash.op = "other hash";
  other_hash.digest->hash.high ^= 1;
  testing::ProducedTensor other_sum = honest;
  other_sum.op = "other sum";
  other_sum.digest->summary.sum = -1.75;
  testing::ProducedTensor claimed = other_sum;
  claimed.op = "claimed";
  claimed.is_sent = false;
  Offer(stream, producer.Chunk(0, {honest, other_hash, other_sum, claimed}));
  peer.AwaitCommit(1);
  testing::NamedRuns runs(store_);
  for (const auto* tensor : {&honest, &other_hash, &other_sum}) {
    const auto info = runs.GetTensor(producer.KeyOf(*tensor));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_TRUE(HasEqualBits({info->summary, info->hash}, *honest.digest));
    EXPECT_FALSE(info->is_claimed);
  }
  const auto info = runs.GetTensor(producer.KeyOf(claimed));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->is_claimed);
  EXPECT_EQ(info->summary.sum, -1.75);
  EXPECT_EQ(runs.ListCoverage("run")->at(0).repeats,
            (storage::StreamRepeats{
                .claimed_count = 4, .checked_count = 3, .false_count = 2}));
}

TEST_F(IngestPipelineTest, CommitsWhatIsReadyInOneAppend) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  store_.BlockAppends();
  Offer(stream, producer.Chunk(0));
  store_.AwaitAppend();
  for (uint64_t i = 1; i < 6; ++i) Offer(stream, producer.Chunk(i));
  while (pipeline_->Stats().ready_bytes < 5 * 8192) std::this_thread::yield();
  store_.UnblockAppends();
  peer.AwaitCommit(6);
  EXPECT_THAT(store_.append_sizes(), ElementsAre(1, 5));
}

TEST_F(IngestPipelineTest, CommitIntervalGathersButDoesNotHoldUpAnEnd) {
  IngestOptions options;
  options.commit_interval = std::chrono::hours(1);
  Restart(options);
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  for (uint64_t i = 0; i < 5; ++i) Offer(stream, producer.Chunk(i));
  EXPECT_THAT(store_.append_sizes(), ElementsAre());
  pipeline_->Finish(stream, absl::OkStatus());
  EXPECT_TRUE(peer.AwaitEnd().ok());
  EXPECT_EQ(StoredCount("run"), 5u);
}

TEST_F(IngestPipelineTest, ResentChunkIsAcknowledgedAndNotStoredAgain) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  Offer(stream, producer.Chunk(0));
  Offer(stream, producer.Chunk(1));
  peer.AwaitCommit(2);
  const size_t acks = peer.commits().size();
  EXPECT_EQ(Offer(stream, producer.Chunk(0)), Offered::kMore);
  pipeline_->Finish(stream, absl::OkStatus());
  EXPECT_TRUE(peer.AwaitEnd().ok());
  EXPECT_EQ(peer.commits().size(), acks + 1);
  EXPECT_EQ(peer.commits().back(), 2u);
  EXPECT_EQ(store_.Stats().committed_chunk_count, 2u);
}

TEST_F(IngestPipelineTest, GapEndsTheStreamBehindWhatCameBefore) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  Offer(stream, producer.Chunk(0));
  EXPECT_EQ(Offer(stream, producer.Chunk(4)), Offered::kEnded);
  EXPECT_EQ(Offer(stream, producer.Chunk(1)), Offered::kEnded);
  const absl::Status end = peer.AwaitEnd();
  EXPECT_EQ(end.code(), Code::kOutOfRange);
  EXPECT_EQ(Reason(end), "CHUNK_OUT_OF_ORDER");
  EXPECT_THAT(Metadata(end),
              ElementsAre(Pair("expected", "1"), Pair("received", "4")));
  EXPECT_EQ(peer.commits().back(), 1u);
  EXPECT_EQ(StoredCount("run"), 1u);
  EXPECT_EQ(pipeline_->Stats().refused_chunk_count, 1u);
  EXPECT_EQ(leases_, 0);
}

TEST_F(IngestPipelineTest, MisdirectedChunkEndsTheStream) {
  Producer producer("run", 0, 7);
  Producer others[] = {Producer("other", 0, 7), Producer("run", 1, 7),
                       Producer("run", 0, 8)};
  for (Producer& other : others) {
    RecordingPeer& peer = NewPeer();
    const StreamHandle stream = Open(producer, peer);
    EXPECT_EQ(Offer(stream, other.Chunk(0)), Offered::kEnded);
    const absl::Status end = peer.AwaitEnd();
    EXPECT_EQ(end.code(), Code::kInvalidArgument);
    EXPECT_EQ(Reason(end), "CHUNK_MISDIRECTED");
  }
}

TEST_F(IngestPipelineTest, MalformedChunkEndsTheStreamAndNoOther) {
  Producer producer("run", 0, 7);
  Producer bystander("run", 1, 8);
  RecordingPeer& peer = NewPeer();
  RecordingPeer& bystander_peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  const StreamHandle other = Open(bystander, bystander_peer);
  EXPECT_EQ(Offer(stream, std::string(4096, 'x')), Offered::kEnded);
  EXPECT_EQ(Reason(peer.AwaitEnd()), "CHUNK_MALFORMED");
  EXPECT_EQ(Offer(other, bystander.Chunk(0)), Offered::kMore);
  bystander_peer.AwaitCommit(1);
}

TEST_F(IngestPipelineTest, FullWindowWaitsForACommit) {
  IngestOptions options;
  options.stream_window_bytes = 3 * 8192;
  Restart(options);
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  store_.BlockAppends();
  ASSERT_EQ(producer.Chunk(0).size(), 8192u);
  EXPECT_EQ(Offer(stream, producer.Chunk(0)), Offered::kMore);
  EXPECT_EQ(Offer(stream, producer.Chunk(1)), Offered::kMore);
  EXPECT_EQ(Offer(stream, producer.Chunk(2)), Offered::kWait);
  store_.UnblockAppends();
  peer.AwaitResume();
  EXPECT_NE(Offer(stream, producer.Chunk(3)), Offered::kEnded);
  peer.AwaitCommit(4);
}

TEST_F(IngestPipelineTest, FullWindowDoesNotWaitForTheCommitInterval) {
  IngestOptions options;
  options.stream_window_bytes = 8192;
  options.commit_interval = std::chrono::hours(1);
  Restart(options);
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Offer(stream, producer.Chunk(i)), Offered::kWait);
    peer.AwaitResume();
  }
}

TEST_F(IngestPipelineTest, StorageFailureDropsWhatIsInFlightAndIsReported) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  Offer(stream, producer.Chunk(0));
  peer.AwaitCommit(1);
  store_.FailAppends(DiskError());
  Offer(stream, producer.Chunk(1));
  const absl::Status end = peer.AwaitEnd();
  EXPECT_EQ(end.code(), Code::kUnavailable);
  EXPECT_EQ(Reason(end), "STORAGE_FAILED");
  EXPECT_EQ(peer.commits().back(), 1u);
  EXPECT_EQ(pipeline_->Stats().storage_state, StorageState::kFailed);
  EXPECT_THAT(pipeline_->Stats().storage_error, HasSubstr("input/output"));
  EXPECT_EQ(leases_, 0);
}

TEST_F(IngestPipelineTest, FullDiskIsToldApart) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  store_.FailAppends(WithReason(absl::ResourceExhaustedError("no space"),
                                ErrorReason::kDiskFull));
  Offer(stream, producer.Chunk(0));
  const absl::Status end = peer.AwaitEnd();
  EXPECT_EQ(end.code(), Code::kResourceExhausted);
  EXPECT_EQ(Reason(end), "DISK_FULL");
  EXPECT_EQ(pipeline_->Stats().storage_state, StorageState::kFull);
}

TEST_F(IngestPipelineTest, StorageRecoversWithTheNextAppendThatSucceeds) {
  Producer producer("run", 0, 7);
  RecordingPeer& before = NewPeer();
  const StreamHandle broken = Open(producer, before);
  store_.FailAppends(DiskError());
  Offer(broken, producer.Chunk(0));
  EXPECT_FALSE(before.AwaitEnd().ok());

  store_.FailAppends(absl::OkStatus());
  RecordingPeer& after = NewPeer();
  const StreamHandle stream = Open(producer, after);
  Offer(stream, producer.Chunk(0));
  after.AwaitCommit(1);
  EXPECT_EQ(pipeline_->Stats().storage_state, StorageState::kOk);
  EXPECT_EQ(pipeline_->Stats().storage_error, "");
}

TEST_F(IngestPipelineTest, StorageThatRecoversIsKnownWithoutAnAppend) {
  IngestOptions options;
  options.probe_interval = std::chrono::milliseconds(1);
  Restart(options);
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  store_.FailAppends(DiskError());
  Offer(Open(producer, peer), producer.Chunk(0));
  EXPECT_FALSE(peer.AwaitEnd().ok());
  EXPECT_EQ(pipeline_->Stats().storage_state, StorageState::kFailed);
  store_.FailAppends(WithReason(absl::ResourceExhaustedError("no space"),
                                ErrorReason::kDiskFull));
  while (pipeline_->Stats().storage_state != StorageState::kFull) {
    std::this_thread::yield();
  }
  store_.FailAppends(absl::OkStatus());
  while (pipeline_->Stats().storage_state != StorageState::kOk) {
    std::this_thread::yield();
  }
  EXPECT_EQ(pipeline_->Stats().storage_error, "");
}

TEST_F(IngestPipelineTest, RunThatVanishesTakesNoOtherRunWithIt) {
  Producer doomed("doomed", 0, 7);
  Producer sound("sound", 0, 8);
  RecordingPeer& doomed_peer = NewPeer();
  RecordingPeer& sound_peer = NewPeer();
  const StreamHandle doomed_stream = Open(doomed, doomed_peer);
  const StreamHandle sound_stream = Open(sound, sound_peer);
  store_.BlockAppends();
  Offer(sound_stream, sound.Chunk(0));
  store_.AwaitAppend();
  Offer(doomed_stream, doomed.Chunk(0));
  Offer(sound_stream, sound.Chunk(1));
  std::thread remover([this] { (void)store_.DeleteRun("doomed"); });
  store_.UnblockAppends();
  remover.join();
  sound_peer.AwaitCommit(2);
  // The run was deleted without the pipeline, so the chunk may have arrived
  // first.
  Offer(doomed_stream, doomed.Chunk(1));
  EXPECT_EQ(Reason(doomed_peer.AwaitEnd()), "RUN_SEALED");
  EXPECT_EQ(pipeline_->Stats().storage_state, StorageState::kOk);
}

TEST_F(IngestPipelineTest, SealCommitsWhatWasReceivedAndEndsTheStreams) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  store_.BlockAppends();
  for (uint64_t i = 0; i < 5; ++i) Offer(stream, producer.Chunk(i));
  store_.AwaitAppend();
  std::thread sealer([this] {
    const auto run = pipeline_->runs().SealRun("run");
    ASSERT_TRUE(run.ok());
    EXPECT_TRUE(run->sealed);
  });
  store_.UnblockAppends();
  sealer.join();
  const absl::Status end = peer.AwaitEnd();
  EXPECT_EQ(end.code(), Code::kFailedPrecondition);
  EXPECT_EQ(Reason(end), "RUN_SEALED");
  EXPECT_EQ(peer.commits().back(), 5u);
  EXPECT_EQ(StoredCount("run"), 5u);

  RecordingPeer& late = NewPeer();
  EXPECT_EQ(Reason(pipeline_->Open(SpecOf(producer), late).status()),
            "RUN_SEALED");
}

TEST_F(IngestPipelineTest, OnlyWhoRestoresARunStreamsIntoIt) {
  storage::RunSpec run;
  run.name = "run";
  run.restoring = true;
  const auto made = store_.CreateRun(run);
  ASSERT_TRUE(made.ok());
  Producer producer("run", 0, 7);
  StreamSpec spec = SpecOf(producer);
  for (const IfExists if_exists :
       {IfExists::kFail, IfExists::kAppend, IfExists::kReplace}) {
    RecordingPeer& other = NewPeer();
    spec.if_exists = if_exists;
    EXPECT_EQ(Reason(pipeline_->Open(spec, other).status()), "RUN_RESTORING");
  }
  spec.if_exists = IfExists::kFail;
  // The id of a run that was deleted or replaced.
  spec.restored_run = storage::RunId{static_cast<uint64_t>(made->id) + 1};
  EXPECT_EQ(Reason(pipeline_->Open(spec, NewPeer()).status()), "RUN_NOT_FOUND");
  spec.run = "gone";
  EXPECT_EQ(Reason(pipeline_->Open(spec, NewPeer()).status()), "RUN_NOT_FOUND");
  EXPECT_FALSE(store_.GetRun("gone").ok());
  spec.run = "run";
  spec.restored_run = made->id;
  RecordingPeer& own = NewPeer();
  ASSERT_TRUE(pipeline_->Open(spec, own).ok());
  const access::Caller admin{"uid:1", access::Role::kAdmin};
  EXPECT_EQ(Reason(pipeline_->runs().SealRun("run", admin).status()),
            "RUN_RESTORING");
  EXPECT_TRUE(pipeline_->runs().SealRun("run").ok());
  EXPECT_TRUE(own.AwaitEnd().ok() || Reason(own.AwaitEnd()) == "RUN_SEALED");
}

TEST_F(IngestPipelineTest, DeleteEndsTheStreamsAndForbidsNothingLater) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  Offer(stream, producer.Chunk(0));
  ASSERT_TRUE(pipeline_->runs().DeleteRun("run").ok());
  EXPECT_EQ(Reason(peer.AwaitEnd()), "RUN_SEALED");
  EXPECT_EQ(Reason(pipeline_->runs().DeleteRun("run")), "RUN_NOT_FOUND");
  RecordingPeer& again = NewPeer();
  Open(Producer("run", 0, 9), again);
}

TEST_F(IngestPipelineTest, RunsDoNotWaitForTheCommitOfAnother) {
  Producer slow("slow", 0, 7);
  Producer idle("idle", 0, 8);
  RecordingPeer& slow_peer = NewPeer();
  RecordingPeer& idle_peer = NewPeer();
  const StreamHandle slow_stream = Open(slow, slow_peer);
  const StreamHandle idle_stream = Open(idle, idle_peer);
  pipeline_->ReportCoverage(idle_stream, {.seen_count = 5, .dropped_count = 3},
                            0);
  HangAppend(slow_stream, slow);
  std::thread sealer([this] { (void)pipeline_->runs().SealRun("slow"); });
  // From now on, the seal holds its locks.
  while (Offer(slow_stream, slow.Chunk(0)) != Offered::kEnded) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(ReturnsMeanwhile([this] {
    EXPECT_TRUE(pipeline_->runs().SealRun("idle").ok());
    EXPECT_EQ(store_.GetRun("idle")->counters.dropped_count, 3u);
    EXPECT_TRUE(pipeline_->runs().DeleteRun("idle").ok());
    RecordingPeer& peer = NewPeer();
    Open(Producer("idle", 0, 9), peer);
    EXPECT_TRUE(pipeline_->runs().SetCapturePolicy("idle", {}, 3).ok());
  }));
  store_.UnblockAppends();
  sealer.join();
  EXPECT_EQ(Reason(idle_peer.AwaitEnd()), "RUN_SEALED");
  EXPECT_EQ(Reason(slow_peer.AwaitEnd()), "RUN_SEALED");
  EXPECT_EQ(StoredCount("slow"), 1u);
}

TEST_F(IngestPipelineTest, DeleteDropsWhatWaitsBehindTheCommitOfAnotherRun) {
  Producer slow("slow", 0, 7);
  Producer doomed("doomed", 0, 8);
  RecordingPeer& slow_peer = NewPeer();
  RecordingPeer& doomed_peer = NewPeer();
  const StreamHandle slow_stream = Open(slow, slow_peer);
  const StreamHandle doomed_stream = Open(doomed, doomed_peer);
  HangAppend(slow_stream, slow);
  Offer(doomed_stream, doomed.Chunk(0));
  RecordingPeer& again = NewPeer();
  EXPECT_TRUE(ReturnsMeanwhile([&] {
    EXPECT_TRUE(pipeline_->runs().DeleteRun("doomed").ok());
    Offer(Open(Producer("doomed", 0, 9), again),
          Producer("doomed", 0, 9).Chunk(0));
  }));
  EXPECT_EQ(pipeline_->Stats().open_stream_count, 3u);
  store_.UnblockAppends();
  EXPECT_EQ(Reason(doomed_peer.AwaitEnd()), "RUN_SEALED");
  EXPECT_THAT(doomed_peer.commits(), ElementsAre());
  again.AwaitCommit(1);
  EXPECT_EQ(StoredCount("doomed"), 1u);
  EXPECT_TRUE(
      pipeline_->Drain(std::chrono::steady_clock::time_point::max()).ok());
  EXPECT_EQ(doomed_peer.ends(), 1);
  EXPECT_EQ(leases_, 0);
}

TEST_F(IngestPipelineTest, DeleteWaitsForTheCommitOfItsOwnRun) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  HangAppend(stream, producer);
  std::thread remover(
      [this] { EXPECT_TRUE(pipeline_->runs().DeleteRun("run").ok()); });
  while (Offer(stream, producer.Chunk(0)) != Offered::kEnded) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(store_.GetRun("run").ok());
  store_.UnblockAppends();
  remover.join();
  EXPECT_EQ(store_.GetRun("run").status().code(), Code::kNotFound);
}

TEST_F(IngestPipelineTest, ReconnectOfAnIdleStreamDoesNotWaitForACommit) {
  Producer slow("slow", 0, 7);
  Producer other("other", 0, 8);
  RecordingPeer& slow_peer = NewPeer();
  RecordingPeer& dead = NewPeer();
  RecordingPeer& alive = NewPeer();
  const StreamHandle slow_stream = Open(slow, slow_peer);
  Open(other, dead);
  HangAppend(slow_stream, slow);
  EXPECT_TRUE(ReturnsMeanwhile([&] { Open(other, alive); }));
  store_.UnblockAppends();
  EXPECT_EQ(dead.AwaitEnd().code(), Code::kAborted);
}

TEST_F(IngestPipelineTest, OpenMakesTheRunOrJoinsIt) {
  RecordingPeer* peers[] = {&NewPeer(), &NewPeer(), &NewPeer()};
  Open(Producer("run", 0, 7), *peers[0]);
  EXPECT_EQ(store_.GetRun("run")->spec.world_size, 8);
  Open(Producer("run", 7, 8), *peers[1]);
  const auto other = pipeline_->Open(
      SpecOf(Producer("run", 1, 9), /*world_size=*/4), *peers[2]);
  EXPECT_EQ(other.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(Reason(other.status()), "RUN_EXISTS");
}

TEST_F(IngestPipelineTest, OpenGivesARunWithoutWorldSizeOne) {
  ASSERT_TRUE(store_.CreateRun({"run", 0, {{"model", "m"}}}).ok());
  RecordingPeer& peer = NewPeer();
  Open(Producer("run", 0, 7), peer);
  EXPECT_EQ(store_.GetRun("run")->spec.world_size, 8);
  EXPECT_EQ(store_.GetRun("run")->spec.labels.at("model"), "m");
}

TEST_F(IngestPipelineTest, OpenRefusesNumbersOutOfRange) {
  struct Case {
    StreamSpec spec;
    std::string reason;
  };
  const Case cases[] = {
      {{"r", -1, 8, 1, ""}, "RANK_OUT_OF_RANGE"},
      {{"r", 8, 8, 1, ""}, "RANK_OUT_OF_RANGE"},
      {{"r", 0, 0, 1, ""}, "FIELD_INVALID"},
      {{"r", 0, -5, 1, ""}, "FIELD_INVALID"},
      {{"r", 0, (1 << 20) + 1, 1, ""}, "FIELD_INVALID"},
      {{"r", 0, 8, 0, ""}, "FIELD_INVALID"},
  };
  for (const Case& c : cases) {
    RecordingPeer& peer = NewPeer();
    const auto opened = pipeline_->Open(c.spec, peer);
    EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(Reason(opened.status()), c.reason);
  }
}

TEST_F(IngestPipelineTest, SecondProducerOfARankIsRefused) {
  RecordingPeer& first = NewPeer();
  RecordingPeer& second = NewPeer();
  Open(Producer("run", 0, 7), first);
  const auto opened = pipeline_->Open(SpecOf(Producer("run", 0, 8)), second);
  EXPECT_EQ(opened.status().code(), Code::kAlreadyExists);
  EXPECT_EQ(Reason(opened.status()), "RANK_BUSY");
}

TEST_F(IngestPipelineTest, StreamIdOfAnotherRunOrRankBeginsAtItsOwnFirstChunk) {
  Producer rank_0("run", 0, 7);
  Producer rank_1("run", 1, 7);
  Producer other_run("other", 0, 7);
  RecordingPeer& peer_0 = NewPeer();
  const StreamHandle stream_0 = Open(rank_0, peer_0);
  Offer(stream_0, rank_0.Chunk(0));
  Offer(stream_0, rank_0.Chunk(1));
  peer_0.AwaitCommit(2);
  RecordingPeer& peer_1 = NewPeer();
  const StreamHandle stream_1 = Open(rank_1, peer_1);
  EXPECT_EQ(Offer(stream_1, rank_1.Chunk(0)), Offered::kMore);
  peer_1.AwaitCommit(1);
  pipeline_->Finish(stream_0, absl::OkStatus());
  EXPECT_TRUE(peer_0.AwaitEnd().ok());
  RecordingPeer& peer_2 = NewPeer();
  Offer(Open(other_run, peer_2), other_run.Chunk(0));
  peer_2.AwaitCommit(1);
  EXPECT_EQ(StoredCount("run"), 3u);
  EXPECT_EQ(StoredCount("other"), 1u);
}

TEST_F(IngestPipelineTest, ReconnectReplacesTheDeadConnectionAndGoesOn) {
  Producer producer("run", 0, 7);
  RecordingPeer& dead = NewPeer();
  const StreamHandle before = Open(producer, dead);
  for (uint64_t i = 0; i < 3; ++i) Offer(before, producer.Chunk(i));
  RecordingPeer& alive = NewPeer();
  const StreamHandle stream = Open(producer, alive, /*expected_count=*/3);
  EXPECT_EQ(dead.AwaitEnd().code(), Code::kAborted);
  EXPECT_EQ(Offer(before, producer.Chunk(3)), Offered::kEnded);
  Offer(stream, producer.Chunk(3));
  alive.AwaitCommit(4);
  EXPECT_EQ(StoredCount("run"), 4u);
}

TEST_F(IngestPipelineTest, StreamsAreBounded) {
  IngestOptions options;
  options.streams_max = 2;
  Restart(options);
  RecordingPeer* peers[] = {&NewPeer(), &NewPeer(), &NewPeer()};
  const StreamHandle first = Open(Producer("run", 0, 7), *peers[0]);
  Open(Producer("run", 1, 8), *peers[1]);
  const Producer third("run", 2, 9);
  const auto opened = pipeline_->Open(SpecOf(third), *peers[2]);
  EXPECT_EQ(opened.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(Reason(opened.status()), "STREAMS_EXHAUSTED");
  pipeline_->Finish(first, absl::OkStatus());
  EXPECT_TRUE(peers[0]->AwaitEnd().ok());
  Open(third, *peers[2]);
}

TEST_F(IngestPipelineTest, CoverageCountsOnceHoweverOftenItIsTold) {
  const StreamCoverage first{.seen_count = 5, .dropped_count = 3};
  const StreamCoverage second{
      .seen_count = 9, .filtered_count = 1, .dropped_count = 4};
  const std::vector<StreamCoverage> connections[] = {
      {first, first}, {second}, {second, first}};
  for (const std::vector<StreamCoverage>& reports : connections) {
    RecordingPeer& peer = NewPeer();
    const StreamHandle stream = Open(Producer("run", 2, 7), peer);
    for (const StreamCoverage& report : reports) {
      pipeline_->ReportCoverage(stream, report, 0);
    }
    pipeline_->Finish(stream, absl::OkStatus());
    EXPECT_TRUE(peer.AwaitEnd().ok());
  }
  const auto ranks = testing::NamedRuns(store_).ListCoverage("run");
  ASSERT_TRUE(ranks.ok());
  EXPECT_THAT(*ranks, ElementsAre(storage::RankCoverage{2, 1, second}));
  EXPECT_EQ(store_.GetRun("run")->counters.dropped_count, 4u);
  EXPECT_EQ(pipeline_->Stats().coverage.dropped_count, 4u);
}

TEST_F(IngestPipelineTest, CapturePolicyReachesTheStreamsOfItsRun) {
  Producer producer("run", 0, 7);
  Producer other("other", 0, 8);
  RecordingPeer& peer = NewPeer();
  RecordingPeer& other_peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  Open(other, other_peer);
  Offer(stream, producer.Chunk(0, {{.op = "a", .token = 4, .values = {1}}}));
  peer.AwaitCommit(1);

  capture::Policy policy;
  policy.rules.emplace_back().tensors.op_patterns = {"a*"};
  const auto first = pipeline_->runs().SetCapturePolicy("run", policy, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->revision, 1u);
  EXPECT_EQ(first->first_token, 5);
  EXPECT_EQ(peer.AwaitPolicy(1), capture::Encode({*first}));

  const auto second = pipeline_->runs().SetCapturePolicy("run", policy, 70);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->revision, 2u);
  EXPECT_EQ(second->first_token, 70);
  const std::string both = capture::Encode({*first, *second});
  EXPECT_EQ(peer.AwaitPolicy(2), both);

  ASSERT_TRUE(pipeline_->runs().SetCapturePolicy("other", policy, 1).ok());
  capture::Policies others;
  EXPECT_TRUE(capture::Decode(other_peer.AwaitPolicy(1), others));
  EXPECT_EQ(others.size(), 1u);

  // A stream that is opened later receives it immediately.
  RecordingPeer& later = NewPeer();
  const auto opened = pipeline_->Open(SpecOf(Producer("run", 1, 9)), later);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->capture_policy, both);
}

TEST_F(IngestPipelineTest, CapturePolicyMakesItsRunOrFindsItSealed) {
  ASSERT_TRUE(pipeline_->runs().SetCapturePolicy("new", {}, 3).ok());
  EXPECT_EQ(store_.GetRun("new")->spec.world_size, 0);
  ASSERT_TRUE(pipeline_->runs().SealRun("new").ok());
  EXPECT_EQ(Reason(pipeline_->runs().SetCapturePolicy("new", {}, 3).status()),
            "RUN_SEALED");
}

TEST_F(IngestPipelineTest, CapturePolicyThatIsTooLongLeavesTheOneBefore) {
  capture::Policy policy;
  policy.rules.emplace_back();
  ASSERT_TRUE(pipeline_->runs().SetCapturePolicy("run", policy, 3).ok());
  const std::string before = store_.GetRun("run")->capture_policy;
  policy.rules.resize(capture::kRulesMax);
  for (capture::Rule& rule : policy.rules) {
    rule.tensors.op_patterns.assign(8, std::string(kOpBytesMax, '*'));
  }
  EXPECT_EQ(
      Reason(pipeline_->runs().SetCapturePolicy("run", policy, 4).status()),
      "FIELD_INVALID");
  EXPECT_EQ(store_.GetRun("run")->capture_policy, before);
}

TEST_F(IngestPipelineTest, DrainCommitsEverythingAndRefusesNewStreams) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  for (uint64_t i = 0; i < 5; ++i) Offer(stream, producer.Chunk(i));
  EXPECT_TRUE(
      pipeline_->Drain(std::chrono::steady_clock::time_point::max()).ok());
  EXPECT_EQ(Reason(peer.AwaitEnd()), "NOT_SERVING");
  EXPECT_EQ(peer.commits().back(), 5u);
  EXPECT_EQ(StoredCount("run"), 5u);
  RecordingPeer& late = NewPeer();
  const auto opened = pipeline_->Open(SpecOf(Producer("run", 1, 8)), late);
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  EXPECT_EQ(Reason(opened.status()), "NOT_SERVING");
}

TEST_F(IngestPipelineTest, DrainGivesUpAtItsDeadline) {
  Producer producer("run", 0, 7);
  RecordingPeer& peer = NewPeer();
  const StreamHandle stream = Open(producer, peer);
  store_.BlockAppends();
  Offer(stream, producer.Chunk(0));
  store_.AwaitAppend();
  EXPECT_EQ(pipeline_->Drain(std::chrono::steady_clock::now()).code(),
            Code::kDeadlineExceeded);
  store_.UnblockAppends();
  peer.AwaitCommit(1);
}

TEST_F(IngestPipelineTest, ManyStreamsKeepTheirOrder) {
  constexpr int kStreams = 8;
  constexpr uint64_t kChunks = 60;
  IngestOptions options;
  options.stream_window_bytes = 4 * 8192;
  options.commit_bytes_max = 5 * 8192;
  Restart(options);
  std::vector<RecordingPeer*> peers;
  for (int rank = 0; rank < kStreams; ++rank) peers.push_back(&NewPeer());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kStreams; ++rank) {
    threads.emplace_back([this, rank, &peer = *peers[rank]] {
      Producer producer("run", rank, 100 + rank);
      const StreamHandle stream = Open(producer, peer);
      for (uint64_t i = 0; i < kChunks; ++i) {
        if (i % 7 == 3) Offer(stream, producer.Chunk(i - 1));
        if (Offer(stream, producer.Chunk(i)) == Offered::kWait) {
          peer.AwaitResume();
        }
      }
      pipeline_->Finish(stream, absl::OkStatus());
      EXPECT_TRUE(peer.AwaitEnd().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (RecordingPeer* peer : peers) {
    EXPECT_EQ(peer->commits().back(), kChunks);
    EXPECT_EQ(peer->ends(), 1);
  }
  EXPECT_EQ(StoredCount("run"), kStreams * kChunks);
  EXPECT_EQ(leases_, 0);
}

}  // namespace
}  // namespace msitd::ingest
