// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>

#include "daemon/ingest/ingest_pipeline.h"
#include "protos/base/stream_id.h"
#include "protos/status/status.h"
#include "storage/store.h"
#include "tests/support/fake_store.h"
#include "tests/support/fault_env.h"
#include "tests/support/producer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/daemon/ingest/recording_peer.h"

namespace msitd::ingest {
namespace {

using testing::Aligned;
using testing::FakeStore;
using testing::Producer;

// Tests of the run to which a stream is assigned.
class IngestPipelineOpenTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart(); }

  // Restarts the pipeline, which loses its state in memory.
  void Restart(size_t streams_max = 384) {
    pipeline_.reset();
    IngestOptions options;
    options.streams_max = streams_max;
    pipeline_ = std::make_unique<IngestPipeline>(store_, store_, options);
  }

  struct Rank {
    int32_t rank = 0;
    uint32_t process = 1;
    IfExists if_exists = IfExists::kFail;
    std::string job = {};
    std::string run = "run";
    int32_t world_size = 2;
    access::Caller caller = access::Daemon();
  };

  absl::StatusOr<StreamHandle> TryOpen(const Rank& rank) {
    StreamSpec spec{rank.run, rank.rank, rank.world_size,
                    MakeStreamId(rank.process, ++stream_count_), "test"};
    spec.if_exists = rank.if_exists;
    spec.job = rank.job;
    spec.caller = rank.caller;
    auto opened = pipeline_->Open(spec, peers_.emplace_back());
    if (!opened.ok()) return opened.status();
    return std::move(opened->stream);
  }

  void Finish(const StreamHandle& stream) {
    pipeline_->Finish(stream, absl::OkStatus());
    EXPECT_TRUE(static_cast<RecordingPeer&>(stream->peer).AwaitEnd().ok());
  }

  // Opens a stream, records a tensor of value `rank.process` unless `records`
  // is false, and ends the stream. Returns the name of its run, or the reason
  // of the error.
  std::string Record(const Rank& rank, bool records = true) {
    const auto stream = TryOpen(rank);
    if (!stream.ok()) return Reason(stream.status());
    const StreamSpec& spec = (*stream)->spec;
    if (records) {
      Producer producer(spec.run, spec.rank, spec.stream_id);
      const std::string chunk =
          producer.Chunk(0, {{.values = {static_cast<float>(rank.process)}}});
      auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
      const auto bytes = lease->bytes(chunk.size());
      pipeline_->Offer(*stream, bytes, std::move(lease));
    }
    Finish(*stream);
    return spec.run;
  }

  uint64_t TensorCount(const std::string& run) {
    const auto info = store_.GetRun(run);
    return info.ok() ? info->counters.tensor_count : 0;
  }

  std::atomic<int> leases_ = 0;
  uint32_t stream_count_ = 0;
  FakeStore store_;
  std::deque<RecordingPeer> peers_;
  std::unique_ptr<IngestPipeline> pipeline_;
};

TEST_F(IngestPipelineOpenTest, RanksOfAnotherNamedLaunchDoNotJoinByDefault) {
  EXPECT_EQ(Record({.rank = 0, .job = "a"}), "run");
  EXPECT_EQ(Record({.rank = 1, .process = 2, .job = "b"}), "RUN_EXISTS");
  // The number of the recording does not matter.
  EXPECT_EQ(Record({.rank = 1, .process = 2, .job = "a / recording 2"}), "run");
  EXPECT_EQ(Record({.rank = 0,
                    .process = 2,
                    .if_exists = IfExists::kAppend,
                    .job = "b"}),
            "run");
  // Launches without a name may be one launch.
  for (const char* job : {"", "parent 1", "launch 2", "process 3"}) {
    const std::string run = std::string("run of ") + job;
    EXPECT_EQ(Record({.rank = 0, .job = job, .run = run}), run);
    EXPECT_EQ(Record({.rank = 1, .process = 2, .job = "b", .run = run}), run);
  }
}

TEST_F(IngestPipelineOpenTest, TensorsOfAnotherStreamAreInTheWay) {
  EXPECT_EQ(Record({}), "run");
  EXPECT_EQ(Record({.process = 2}), "RUN_EXISTS");
  EXPECT_EQ(Record({.process = 1}), "RUN_EXISTS");
  // Other ranks of the process do not conflict.
  EXPECT_EQ(Record({.rank = 1, .process = 1}), "run");
  EXPECT_EQ(Record({.process = 2, .if_exists = IfExists::kAppend}), "run");
  EXPECT_EQ(Record({.process = 1, .if_exists = IfExists::kAppend}), "run");
}

TEST_F(IngestPipelineOpenTest, ProcessThatRecordsAgainReplacesForAllItsRanks) {
  const auto replace = [this](int32_t rank, bool records = true) {
    return Record({.rank = rank, .if_exists = IfExists::kReplace}, records);
  };
  EXPECT_EQ(replace(0), "run");
  EXPECT_EQ(replace(1), "run");
  EXPECT_EQ(TensorCount("run"), 2u);
  const auto first = store_.GetRun("run")->id;
  EXPECT_EQ(replace(1), "run");
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(replace(0), "run");
  EXPECT_EQ(TensorCount("run"), 2u);
  EXPECT_NE(store_.GetRun("run")->id, first);
  EXPECT_EQ(store_.GetRun("run")->counters.conflict_count, 0u);
  // A rank that recorded nothing in the previous recording also starts the next
  // one.
  EXPECT_EQ(replace(0), "run");
  EXPECT_EQ(replace(1, /*records=*/false), "run");
  const auto third = store_.GetRun("run")->id;
  EXPECT_EQ(replace(1), "run");
  EXPECT_EQ(replace(0), "run");
  EXPECT_NE(store_.GetRun("run")->id, third);
  EXPECT_EQ(TensorCount("run"), 2u);
}

TEST_F(IngestPipelineOpenTest, ProcessThatRecordsAgainGetsANewRun) {
  const auto anew = [this](int32_t rank) {
    return Record({.rank = rank, .if_exists = IfExists::kNew});
  };
  EXPECT_EQ(anew(0), "run");
  EXPECT_EQ(anew(1), "run");
  EXPECT_EQ(anew(1), "run-2");
  EXPECT_EQ(anew(0), "run-2");
  EXPECT_EQ(anew(0), "run-3");
  // This also applies while the previous stream is open.
  const Rank open{.rank = 1, .if_exists = IfExists::kNew};
  const auto stream = TryOpen(open);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ((*stream)->spec.run, "run-3");
  EXPECT_EQ(anew(1), "run-4");
  Finish(*stream);
}

TEST_F(IngestPipelineOpenTest, RanksOfAJobThatAppendsContinueAtOneToken) {
  const auto first_token = [this](int32_t rank, const std::string& job,
                                  IfExists if_exists = IfExists::kAppend) {
    StreamSpec spec{"run", rank, 2, MakeStreamId(1, ++stream_count_), "test"};
    spec.if_exists = if_exists;
    spec.job = job;
    spec.caller = access::Daemon();
    const auto opened = pipeline_->Open(spec, peers_.emplace_back());
    if (!opened.ok()) return int64_t{-1};
    const int64_t first = opened->first_token;
    Producer producer("run", rank, spec.stream_id);
    const std::string chunk =
        producer.Chunk(0, {{.token = first + 3, .values = {1}}});
    auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
    const auto bytes = lease->bytes(chunk.size());
    pipeline_->Offer(opened->stream, bytes, std::move(lease));
    Finish(opened->stream);
    return first;
  };
  // The job that creates the run begins at 0 on all its ranks.
  EXPECT_EQ(first_token(0, "a"), 0);
  EXPECT_EQ(first_token(1, "a"), 0);
  // The first rank of the next job has recorded before the second rank opens
  // its stream.
  EXPECT_EQ(first_token(0, "b"), 4);
  EXPECT_EQ(first_token(1, "b"), 4);
  // The same job again, as if a process records again.
  EXPECT_EQ(first_token(1, "b"), 8);
  EXPECT_EQ(first_token(0, "b"), 8);
  Restart();
  EXPECT_EQ(first_token(0, "c"), 12);
  EXPECT_EQ(first_token(1, "c"), 12);
  EXPECT_EQ(first_token(1, "d", IfExists::kFail), -1);
  // Rank 0 has finished three recordings when rank 1 begins.
  EXPECT_EQ(first_token(0, "e"), 16);
  EXPECT_EQ(first_token(0, "e / recording 2"), 20);
  EXPECT_EQ(first_token(0, "e / recording 3"), 24);
  // This also applies if the daemon restarts in between.
  Restart();
  EXPECT_EQ(first_token(1, "e"), 16);
  EXPECT_EQ(first_token(1, "e / recording 2"), 20);
  EXPECT_EQ(first_token(1, "e / recording 3"), 24);
  // The launch is repeated under the name of the same job.
  EXPECT_EQ(first_token(1, "e"), 28);
  EXPECT_EQ(first_token(0, "e"), 28);
  EXPECT_EQ(first_token(0, "e / recording 2"), 32);
  EXPECT_EQ(first_token(1, "e / recording 2"), 32);
}

TEST_F(IngestPipelineOpenTest, StreamThatComesBackJoinsNoContinuation) {
  for (const bool records : {true, false}) {
    const std::string run = records ? "recorded" : "opened";
    const auto open = [&](int32_t rank, uint32_t stream) {
      StreamSpec spec{run, rank, 2, MakeStreamId(1, stream), "test"};
      spec.if_exists = IfExists::kAppend;
      spec.job = "job";
      spec.caller = access::Daemon();
      return *pipeline_->Open(spec, peers_.emplace_back());
    };
    const auto record = [&](const IngestPipeline::Opened& opened) {
      const StreamSpec& spec = opened.stream->spec;
      Producer producer(run, spec.rank, spec.stream_id);
      const std::string chunk =
          producer.Chunk(0, {{.token = 3, .values = {1}}});
      auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
      const auto bytes = lease->bytes(chunk.size());
      pipeline_->Offer(opened.stream, bytes, std::move(lease));
    };
    const auto first = open(1, 7);
    if (records) record(first);
    Finish(first.stream);
    const auto other = open(0, 8);
    record(other);
    Finish(other.stream);
    // The other rank starts its second recording.
    const auto again = open(0, 9);
    EXPECT_EQ(again.first_token, 4);
    Finish(again.stream);
    const auto back = open(1, 7);
    EXPECT_EQ(back.first_token, 0);
    record(back);
    Finish(back.stream);
    // This rank starts its second recording as well, and reconnects.
    for (int i = 0; i < 2; ++i) {
      const auto second = open(1, 10);
      EXPECT_EQ(second.first_token, 4);
      Finish(second.stream);
    }
  }
}

TEST_F(IngestPipelineOpenTest, RunIsContinuedOnceTheIndexCanBeWrittenAgain) {
  testing::TempDir dir;
  testing::FaultEnv env(storage::Env::Posix());
  storage::StoreOptions store_options;
  store_options.directory = dir / "store";
  const auto store = storage::Store::Open(store_options, env);
  ASSERT_TRUE(store.ok()) << store.status();
  IngestOptions options;
  options.probe_interval = std::chrono::hours(1);
  pipeline_ = std::make_unique<IngestPipeline>((*store)->runs(),
                                               (*store)->log(), options);
  const auto open = [this](const std::string& run) {
    return Record({.if_exists = IfExists::kAppend, .job = "next", .run = run},
                  /*records=*/false);
  };
  EXPECT_EQ(Record({.job = "job"}), "run");
  env.CountIndex();
  for (const std::string run : {"run", "other"}) {
    env.FailAt(1, absl::UnavailableError("too many open files"), true);
    EXPECT_NE(open(run), run);
    env.StopFailing();
    int tries = 1;
    while (open(run) != run && tries < 6) ++tries;
    EXPECT_LT(tries, 6);
  }
  EXPECT_EQ((*store)->runs().GetContinuations("run", 0)->jobs.size(), 1u);
  pipeline_.reset();
}

TEST_F(IngestPipelineOpenTest, RefusedStreamChangesNothing) {
  Restart(/*streams_max=*/1);
  EXPECT_EQ(Record({}), "run");
  const auto id = store_.GetRun("run")->id;
  const auto holder = TryOpen({.run = "held"});
  ASSERT_TRUE(holder.ok());
  for (const IfExists if_exists : {IfExists::kFail, IfExists::kAppend,
                                   IfExists::kReplace, IfExists::kNew}) {
    const Rank rank{.process = 2, .if_exists = if_exists, .run = "absent"};
    EXPECT_EQ(Record(rank), "STREAMS_EXHAUSTED");
    EXPECT_TRUE(absl::IsNotFound(store_.GetRun("absent").status()));
  }
  EXPECT_EQ(Record({.process = 2, .if_exists = IfExists::kReplace}),
            "STREAMS_EXHAUSTED");
  EXPECT_EQ(store_.GetRun("run")->id, id);
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(Record({.process = 2, .if_exists = IfExists::kNew}),
            "STREAMS_EXHAUSTED");
  EXPECT_TRUE(absl::IsNotFound(store_.GetRun("run-2").status()));
  Finish(*holder);
  EXPECT_EQ(Record({.process = 2, .if_exists = IfExists::kReplace}), "run");
  EXPECT_NE(store_.GetRun("run")->id, id);
}

TEST_F(IngestPipelineOpenTest, RefusedStreamDoesNotClaimARunMadeInAdvance) {
  Restart(/*streams_max=*/1);
  ASSERT_TRUE(store_.CreateRun({"run", 0, {}}).ok());
  const auto holder = TryOpen({.run = "held"});
  ASSERT_TRUE(holder.ok());
  EXPECT_EQ(Record({.job = "a"}), "STREAMS_EXHAUSTED");
  EXPECT_EQ(store_.GetRun("run")->spec.job, "");
  EXPECT_EQ(store_.GetRun("run")->spec.world_size, 0);
  Finish(*holder);
}

// Rank 0 has finished its recordings 1 and 2 when rank 1 begins.
TEST_F(IngestPipelineOpenTest, RecordingsOfOneNumberShareANewRun) {
  const auto record = [this](int32_t rank, const std::string& job) {
    return Record({.rank = rank, .if_exists = IfExists::kNew, .job = job});
  };
  EXPECT_EQ(record(0, "J"), "run");
  EXPECT_EQ(record(0, "J / recording 2"), "run-2");
  Restart();
  EXPECT_EQ(record(1, "J"), "run");
  EXPECT_EQ(record(1, "J / recording 2"), "run-2");
  EXPECT_EQ(record(1, "J / recording 3"), "run-3");
  EXPECT_EQ(record(0, "J / recording 3"), "run-3");
}

TEST_F(IngestPipelineOpenTest, LateRecordingDoesNotReplaceALaterOne) {
  const auto record = [this](int32_t rank, const std::string& job) {
    return Record({.rank = rank,
                   .process = static_cast<uint32_t>(rank + 1),
                   .if_exists = IfExists::kReplace,
                   .job = job});
  };
  EXPECT_EQ(record(0, "J"), "run");
  EXPECT_EQ(record(0, "J / recording 2"), "run");
  const auto id = store_.GetRun("run")->id;
  EXPECT_EQ(record(1, "J"), "RUN_EXISTS");
  EXPECT_EQ(record(1, "J / recording 2"), "run");
  EXPECT_EQ(store_.GetRun("run")->id, id);
  EXPECT_EQ(TensorCount("run"), 2u);
  // A recording of another launch is never late.
  EXPECT_EQ(record(1, "K"), "run");
  EXPECT_NE(store_.GetRun("run")->id, id);
}

TEST_F(IngestPipelineOpenTest, RepeatedLaunchReplacesItsFormerRecordings) {
  const auto record = [this](uint32_t process, int32_t rank,
                             const std::string& job) {
    return Record({.rank = rank,
                   .process = process,
                   .if_exists = IfExists::kReplace,
                   .job = job});
  };
  for (const char* const job : {"J", "J / recording 2"}) {
    EXPECT_EQ(record(1, 0, job), "run");
    EXPECT_EQ(record(2, 1, job), "run");
  }
  Restart();
  EXPECT_EQ(record(4, 1, "J"), "run");
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(record(3, 0, "J"), "run");
  EXPECT_EQ(TensorCount("run"), 2u);
  ASSERT_TRUE(pipeline_->runs().SealRun("run").ok());
  EXPECT_EQ(record(5, 0, "J"), "run");
  EXPECT_EQ(TensorCount("run"), 1u);
}

TEST_F(IngestPipelineOpenTest, BusyRankSaysWhetherThisProcessHasIt) {
  const auto stream = TryOpen({});
  ASSERT_TRUE(stream.ok());
  const auto own = TryOpen({});
  EXPECT_THAT(Message(own.status()), ::testing::HasSubstr("from this process"));
  const auto other = TryOpen({.process = 2});
  EXPECT_THAT(Message(other.status()),
              ::testing::HasSubstr("from another process"));
  const auto replaced = TryOpen({.if_exists = IfExists::kReplace});
  EXPECT_THAT(Message(replaced.status()),
              ::testing::HasSubstr("clients of this process"));
  Finish(*stream);
}

const access::Caller kAlice{"uid:1", access::Role::kWriter};
const access::Caller kBob{"uid:2", access::Role::kWriter};

TEST_F(IngestPipelineOpenTest, ARunIsOfWhoOpenedItFirst) {
  EXPECT_EQ(Record({.caller = kAlice}), "run");
  EXPECT_EQ(store_.GetRun("run")->spec.owner, "uid:1");
  for (const IfExists if_exists :
       {IfExists::kFail, IfExists::kAppend, IfExists::kReplace}) {
    EXPECT_EQ(
        Record(
            {.rank = 1, .process = 2, .if_exists = if_exists, .caller = kBob}),
        "NOT_OWNER");
  }
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(Record({.rank = 1, .process = 2, .caller = kAlice}), "run");
  EXPECT_EQ(Record({.process = 3, .if_exists = IfExists::kReplace}), "run");
  EXPECT_EQ(TensorCount("run"), 1u);
}

TEST_F(IngestPipelineOpenTest, NobodyStreamsWhoIsNotNamed) {
  RecordingPeer peer;
  StreamSpec spec{"run", 0, 1, MakeStreamId(1, 7), "test"};
  EXPECT_EQ(Reason(pipeline_->Open(spec, peer).status()), "ROLE_REFUSED");
  spec.caller = {"uid:1", access::Role::kReader};
  EXPECT_EQ(Reason(pipeline_->Open(spec, peer).status()), "ROLE_REFUSED");
  EXPECT_TRUE(absl::IsNotFound(store_.GetRun("run").status()));
}

TEST_F(IngestPipelineOpenTest, OnlyTheOwnerAndAdminsChangeARun) {
  EXPECT_EQ(Record({.caller = kAlice}), "run");
  const auto pin = [](storage::RunRetention& retention) {
    retention.pinned = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(Reason(pipeline_->runs().SealRun("run", kBob).status()),
            "NOT_OWNER");
  EXPECT_EQ(Reason(pipeline_->runs().DeleteRun("run", kBob)), "NOT_OWNER");
  EXPECT_EQ(
      Reason(pipeline_->runs().ChangeRetention("run", kBob, pin).status()),
      "NOT_OWNER");
  int change_count = 0;
  const auto change = [&change_count] {
    ++change_count;
    return absl::OkStatus();
  };
  EXPECT_EQ(Reason(pipeline_->runs().ChangeRun("run", kBob, change)),
            "NOT_OWNER");
  EXPECT_EQ(change_count, 0);
  EXPECT_TRUE(pipeline_->runs().ChangeRun("run", kAlice, change).ok());
  EXPECT_EQ(change_count, 1);
  capture::Policy policy;
  policy.rules.emplace_back().level = capture::Level::kFull;
  EXPECT_EQ(
      Reason(
          pipeline_->runs().SetCapturePolicy("run", policy, {}, kBob).status()),
      "NOT_OWNER");
  EXPECT_TRUE(
      pipeline_->runs().SetCapturePolicy("run", policy, {}, kAlice).ok());
  EXPECT_TRUE(
      pipeline_->runs().ChangeRetention("run", kAlice, pin)->retention.pinned);
  EXPECT_TRUE(pipeline_->runs().SealRun("run", kAlice).ok());
  EXPECT_TRUE(pipeline_->runs().DeleteRun("run", kAlice).ok());
  EXPECT_EQ(Reason(pipeline_->runs().DeleteRun("run", kBob)), "RUN_NOT_FOUND");
}

TEST_F(IngestPipelineOpenTest, NewRunIsNeverThatOfAnother) {
  ASSERT_TRUE(store_.CreateRun({"run", 0, {}, "", "uid:2"}).ok());
  ASSERT_TRUE(store_.CreateRun({"run-4294967295", 0, {}, "a", "uid:2"}).ok());
  const Rank rank{.if_exists = IfExists::kNew, .job = "a", .caller = kAlice};
  EXPECT_EQ(Record(rank), "run-2");
  Rank again = rank;
  again.process = 2;
  EXPECT_EQ(Record(again), "run-3");
}

TEST_F(IngestPipelineOpenTest, StreamThatRecordedNothingIsInNobodysWay) {
  EXPECT_EQ(Record({}, /*records=*/false), "run");
  EXPECT_EQ(Record({.process = 2}), "run");
}

TEST_F(IngestPipelineOpenTest, StreamThatComesBackIsNotInItsOwnWay) {
  StreamSpec spec{"run", 0, 1, MakeStreamId(1, 7), "test"};
  spec.caller = access::Daemon();
  auto first = pipeline_->Open(spec, peers_.emplace_back());
  ASSERT_TRUE(first.ok());
  Producer producer("run", 0, spec.stream_id);
  const std::string chunk = producer.Chunk(0);
  auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
  const auto bytes = lease->bytes(chunk.size());
  pipeline_->Offer(first->stream, bytes, std::move(lease));
  peers_.back().AwaitCommit(1);
  EXPECT_EQ(
      Record({.process = 2, .if_exists = IfExists::kAppend, .world_size = 1}),
      "RANK_BUSY");
  Finish(first->stream);
  EXPECT_EQ(
      Record({.process = 2, .if_exists = IfExists::kAppend, .world_size = 1}),
      "run");
  const auto second = pipeline_->Open(spec, peers_.emplace_back());
  ASSERT_TRUE(second.ok()) << Message(second.status());
  EXPECT_EQ(second->committed_chunk_count, 1u);
  Finish(second->stream);
}

TEST_F(IngestPipelineOpenTest, RunIsReplacedOnceForAllRanksOfALaunch) {
  for (const uint32_t process : {1, 2}) {
    Record({.process = process, .if_exists = IfExists::kAppend});
  }
  ASSERT_TRUE(store_.CreateRun({"other", 2, {}}).ok());
  const auto replace = [this](uint32_t process, int32_t rank,
                              const std::string& job) {
    return Record({.rank = rank,
                   .process = process,
                   .if_exists = IfExists::kReplace,
                   .job = job});
  };
  EXPECT_EQ(replace(10, 1, "a"), "run");
  EXPECT_EQ(replace(11, 0, "a"), "run");
  EXPECT_EQ(TensorCount("run"), 2u);
  // The launch cannot be distinguished from the first one, and is repeated.
  EXPECT_EQ(replace(20, 0, "a"), "run");
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(replace(21, 1, "a"), "run");
  EXPECT_EQ(TensorCount("run"), 2u);
  EXPECT_EQ(store_.GetRun("run")->counters.conflict_count, 0u);
}

TEST_F(IngestPipelineOpenTest, RunThatOthersStreamIntoIsNotReplaced) {
  const auto stream = TryOpen({});
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(Record({.rank = 1,
                    .process = 2,
                    .if_exists = IfExists::kReplace,
                    .job = "b"}),
            "RANK_BUSY");
  Finish(*stream);
}

TEST_F(IngestPipelineOpenTest, EachLaunchHasANewRunForAllItsRanks) {
  const auto anew = [this](uint32_t process, int32_t rank,
                           const std::string& job, bool records = true) {
    return Record({.rank = rank,
                   .process = process,
                   .if_exists = IfExists::kNew,
                   .job = job},
                  records);
  };
  EXPECT_EQ(anew(1, 0, "a"), "run");
  EXPECT_EQ(anew(3, 1, "b"), "run-2");
  // A late stream of the first launch.
  EXPECT_EQ(anew(2, 1, "a", /*records=*/false), "run");
  EXPECT_EQ(anew(4, 0, "b"), "run-2");
  // A launch with the name of the first one. Rank 1, which recorded nothing in
  // that run, is the first to open a stream.
  EXPECT_EQ(anew(6, 1, "a"), "run-3");
  EXPECT_EQ(anew(5, 0, "a"), "run-3");
  ASSERT_TRUE(pipeline_->runs().DeleteRun("run-2").ok());
  EXPECT_EQ(anew(7, 0, "c"), "run-4");
  // Runs with similar names do not belong to the sequence.
  ASSERT_TRUE(store_.CreateRun({"run-bf16", 2, {}}).ok());
  ASSERT_TRUE(store_.CreateRun({"run-99x", 2, {}}).ok());
  ASSERT_TRUE(store_.CreateRun({"run-007", 2, {}}).ok());
  EXPECT_EQ(anew(8, 0, "d"), "run-5");
}

TEST_F(IngestPipelineOpenTest, NewRunIsKnownBehindARestartOfTheDaemon) {
  const Rank rank{.process = 1, .if_exists = IfExists::kNew, .job = "a"};
  EXPECT_EQ(Record(rank), "run");
  Restart();
  Rank other = rank;
  other.rank = 1;
  other.process = 2;
  EXPECT_EQ(Record(other), "run");
  Rank again = rank;
  again.process = 3;
  EXPECT_EQ(Record(again), "run-2");
}

TEST_F(IngestPipelineOpenTest, NewRunIsNoneThatIsSealedOrOfAnotherWorldSize) {
  const Rank rank{.process = 1, .if_exists = IfExists::kNew, .job = "a"};
  // The run was created in advance to set its labels.
  ASSERT_TRUE(store_.CreateRun({"run", 0, {{"model", "small"}}}).ok());
  EXPECT_EQ(Record(rank), "run");
  ASSERT_TRUE(pipeline_->runs().SealRun("run").ok());
  EXPECT_EQ(Record(rank), "run-2");
  Rank larger = rank;
  larger.world_size = 4;
  EXPECT_EQ(Record(larger), "run-3");
  Rank long_name = rank;
  long_name.run = std::string(kRunNameBytesMax, 'x');
  EXPECT_EQ(Record(long_name), long_name.run);
  long_name.job = "b";
  const auto refused = TryOpen(long_name);
  EXPECT_FALSE(refused.ok());
}

TEST_F(IngestPipelineOpenTest, NewRunIsNoneThatTakesNoStreams) {
  const Rank rank{.process = 1, .if_exists = IfExists::kNew, .job = "a"};
  ASSERT_TRUE(store_.CreateRun({"run", 0, {}}).ok());
  ASSERT_TRUE(pipeline_->runs().SealRun("run").ok());
  EXPECT_EQ(Record(rank), "run-2");
  Rank other = rank;
  other.run = "other";
  ASSERT_TRUE(store_.CreateRun({"other", 4, {}}).ok());
  EXPECT_EQ(Record(other), "other-2");
}

TEST_F(IngestPipelineOpenTest, ConflictsAreCountedForTheStream) {
  Record({});
  const auto stream = TryOpen({.process = 2, .if_exists = IfExists::kAppend});
  ASSERT_TRUE(stream.ok());
  RecordingPeer& peer = peers_.back();
  Producer producer("run", 0, (*stream)->spec.stream_id);
  const std::string chunk =
      producer.Chunk(0, {{.values = {1}}, {.values = {2}}, {.values = {3}}});
  auto lease = std::make_unique<CountedLease>(Aligned(chunk), leases_);
  const auto bytes = lease->bytes(chunk.size());
  pipeline_->Offer(*stream, bytes, std::move(lease));
  peer.AwaitCommit(1);
  EXPECT_EQ(peer.conflict_count(), 2u);
  Finish(*stream);
}

TEST_F(IngestPipelineOpenTest, ActivitySaysHowRanksStream) {
  EXPECT_TRUE(pipeline_->ActivityOf("run").ranks.empty());
  Record({});
  const auto open = TryOpen({.rank = 1, .process = 2});
  ASSERT_TRUE(open.ok());
  using State = RankActivity::State;
  RunActivity activity = pipeline_->ActivityOf("run");
  ASSERT_EQ(activity.ranks.size(), 2u);
  EXPECT_EQ(activity.ranks[0].state, State::kFinished);
  EXPECT_EQ(activity.ranks[1].state, State::kOpen);
  pipeline_->Finish(*open, absl::CancelledError("gone"));
  activity = pipeline_->ActivityOf("run");
  EXPECT_EQ(activity.ranks[1].state, State::kBroken);
  ASSERT_TRUE(pipeline_->runs().SealRun("run").ok());
  EXPECT_TRUE(pipeline_->ActivityOf("run").ranks.empty());
}

}  // namespace
}  // namespace msitd::ingest
