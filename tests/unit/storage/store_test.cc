// SPDX-License-Identifier: Apache-2.0
#include "storage/store.h"

#include <rocksdb/write_batch.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "protos/base/stream_id.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using StoreFacesTest = StoreTest;

TEST_F(StoreFacesTest, AppendedTensorsAreReadBackBitEqual) {
  OpenWithRun("r");
  const TestTensor a = MakeTensor("r", 0, "a", 1000, 1);
  const TestTensor b = MakeTensor("r", 0, "b", 70000, 2);
  ASSERT_TRUE(Append({a, b}).ok());
  ExpectStored(a);
  ExpectStored(b);
}

TEST_F(StoreFacesTest, ScalarsAndEmptyTensorsAreTensors) {
  OpenWithRun("r");
  TestTensor scalar = MakeTensor("r", 0, "scalar", 4);
  scalar.dtype = DType::kFloat32;
  scalar.dims = {};
  TestTensor empty = MakeTensor("r", 0, "empty", 0);
  empty.dims = {3, 0, 5};
  ASSERT_TRUE(Append({scalar, empty}).ok());
  ExpectStored(scalar);
  ExpectStored(empty);
  EXPECT_THAT(ScanOps("r"), ElementsAre("scalar", "empty"));
}

TEST_F(StoreFacesTest, NamesMayHoldSlashesBlanksAndUnicode) {
  OpenWithRun("läufe/übung 1");
  TestTensor tensor =
      MakeTensor("läufe/übung 1", 3, "model/层.0 [attn] %2F", 64);
  tensor.key.index = "kw arg/é";
  tensor.key.device = "npu:7";
  TestTensor no_index = tensor;
  no_index.key.index = "";
  ASSERT_TRUE(Append({tensor, no_index}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Open();
  ExpectStored(tensor);
  ExpectStored(no_index);
}

TEST_F(StoreFacesTest, PlacementsAreKeptAndListed) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
  TestTensor shard = MakeTensor("r", 0, "shard", 100);
  shard.placement = "0+2/1:S(0)";
  TestTensor large = MakeTensor("r", 0, "large", kPartBytes + 1);
  large.placement = "0+2/1:P(sum)";
  const TestTensor alone = MakeTensor("r", 0, "alone", 100);
  ASSERT_TRUE(Append({shard, alone}).ok());
  ASSERT_TRUE(Append({large}).ok());
  large.part = 1;
  ASSERT_TRUE(Append({large}).ok());
  for (const bool is_again : {false, true}) {
    if (is_again) {
      Drop();
      Open();
    }
    EXPECT_EQ(read_->GetTensor(shard.key)->placement, shard.placement);
    EXPECT_EQ(read_->GetTensor(large.key)->placement, large.placement);
    EXPECT_EQ(read_->GetTensor(alone.key)->placement, "");
    std::map<std::string, std::string> scanned;
    const auto scan = read_->Scan("r", {}, "");
    ASSERT_TRUE(scan.ok());
    TensorInfo info;
    while (*(*scan)->Next(info)) scanned[info.key.op] = info.placement;
    EXPECT_THAT(scanned,
                ElementsAre(Pair("alone", ""), Pair("large", "0+2/1:P(sum)"),
                            Pair("shard", "0+2/1:S(0)")));
    EXPECT_THAT(*read_->ListPlacements("r"),
                UnorderedElementsAre("0+2/1:S(0)", "0+2/1:P(sum)"));
    EXPECT_THAT(*read_->ListPlacements("other"), IsEmpty());
  }
  EXPECT_EQ(Reason(read_->ListPlacements("none").status()), "RUN_NOT_FOUND");
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  EXPECT_THAT(*read_->ListPlacements("r"), IsEmpty());
}

TEST_F(StoreFacesTest, LargeTensorIsHiddenUntilItsLastPartArrives) {
  OpenWithRun("r");
  TestTensor tensor = MakeTensor("r", 0, "big", 2 * kPartBytes + 100);
  ASSERT_TRUE(Append({tensor}).ok());
  tensor.part = 2;
  ASSERT_TRUE(Append({tensor}).ok());
  ExpectAbsent(tensor.key);
  EXPECT_THAT(ScanKeys("r"), IsEmpty());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 1u);
  tensor.part = 1;
  ASSERT_TRUE(Append({tensor}).ok());
  ExpectStored(tensor);
  EXPECT_THAT(ScanKeys("r"), ElementsAre(tensor.key));
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 1u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.payload_bytes,
            tensor.bytes.size());
}

TEST_F(StoreFacesTest, LargeTensorHasTheMergedSummaryAndTheHashOfItsParts) {
  OpenWithRun("r");
  TestTensor tensor = MakeTensor("r", 0, "big", kPartBytes + 128);
  TestChunks chunks(kStream, 0, {tensor});
  tensor.part = 1;
  chunks.Add(kStream, 1, {tensor});
  const chunk::RecordDescriptor first = chunks.span()[0].records()[0];
  const chunk::RecordDescriptor second = chunks.span()[1].records()[0];
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  const auto info = read_->GetTensor(tensor.key);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->summary, Merge(first.summary, second.summary));
  EXPECT_EQ(info->hash,
            chunk::CombinePartHashes(std::vector{first.hash, second.hash}));
}

TEST_F(StoreFacesTest, PartThatDisagreesWithTheTensorIsAConflict) {
  OpenWithRun("r");
  TestTensor tensor = MakeTensor("r", 0, "big", kPartBytes + 128);
  ASSERT_TRUE(Append({tensor}).ok());
  TestTensor other = MakeTensor("r", 0, "big", kPartBytes + 256);
  other.part = 1;
  ASSERT_TRUE(Append({other}).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.conflict_count, 1u);
  tensor.part = 1;
  ASSERT_TRUE(Append({tensor}).ok());
  ExpectStored(tensor);
}

TEST_F(StoreFacesTest, RepeatsAreCountedAndTheFirstTensorStays) {
  OpenWithRun("r");
  const TestTensor first = MakeTensor("r", 0, "op", 256, 1);
  const TestTensor equal = first;
  const TestTensor other_bytes = MakeTensor("r", 0, "op", 256, 2);
  TestTensor other_dtype = first;
  other_dtype.dtype = DType::kInt8;
  TestTensor other_shape = first;
  other_shape.dims = {2, 128};
  ASSERT_TRUE(Append({first, equal, other_bytes}).ok());
  ASSERT_TRUE(Append({equal}).ok());
  ASSERT_TRUE(Append({other_bytes, other_dtype, other_shape}).ok());
  ExpectStored(first);
  const RunCounters counters = store_->runs().GetRun("r")->counters;
  EXPECT_EQ(counters.tensor_count, 1u);
  EXPECT_EQ(counters.duplicate_count, 2u);
  EXPECT_EQ(counters.conflict_count, 4u);
  EXPECT_EQ(counters.payload_bytes, 256u);
  EXPECT_EQ(store_->upkeep().Stats().duplicate_count, 2u);
  EXPECT_EQ(store_->upkeep().Stats().conflict_count, 4u);
}

TEST_F(StoreFacesTest, RepeatsAreFoundInWhateverOrderTokensAndRanksCome) {
  OpenWithRun("r");
  std::vector<TestTensor> tensors;
  for (const int64_t token : {5, 3, 9, 0}) {
    for (const int32_t rank : {1, 0}) {
      TestTensor tensor = MakeTensor("r", token, "op", 64, 1);
      tensor.key.rank = rank;
      tensors.push_back(std::move(tensor));
    }
  }
  uint64_t sequence = 0;
  const auto append = [&](const TestTensor& tensor) {
    return Append(TestChunks(/*stream_id=*/1, sequence++ / 2, {tensor}));
  };
  for (const TestTensor& tensor : tensors) ASSERT_TRUE(append(tensor).ok());
  for (const TestTensor& tensor : tensors) ASSERT_TRUE(append(tensor).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 8u);
  Drop();
  Open();
  for (const TestTensor& tensor : tensors) ASSERT_TRUE(append(tensor).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 16u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 8u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreFacesTest, SmallTensorOfWhichALaterPartCameFirstIsAConflict) {
  OpenWithRun("r");
  TestTensor stray = MakeTensor("r", 0, "op", kPartBytes + 64, 1);
  stray.part = 1;
  const TestTensor small = MakeTensor("r", 0, "op", 64, 2);
  const TestTensor other = MakeTensor("r", 0, "other", 64, 3);
  ASSERT_TRUE(Append({stray}).ok());
  Drop();
  Open();
  ASSERT_TRUE(Append({small, other}).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.conflict_count, 1u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 2u);
  ExpectAbsent(small.key);
  ExpectStored(other);
  stray.part = 0;
  ASSERT_TRUE(Append({stray}).ok());
  ExpectStored(stray);
}

TEST_F(StoreFacesTest, ChunkThatCameBeforeIsPassedOver) {
  OpenWithRun("r");
  const TestTensor a = MakeTensor("r", 0, "a", 64);
  const TestTensor b = MakeTensor("r", 0, "b", 64);
  TestChunks chunks(9, 0, {a});
  chunks.Add(9, 0, {a});
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 9), 1u);
  ASSERT_TRUE(Append(TestChunks(9, 0, {a})).ok());
  ASSERT_TRUE(Append(TestChunks(9, 1, {b})).ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 9), 2u);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 10), 0u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 0u);
  EXPECT_EQ(store_->upkeep().Stats().committed_chunk_count, 2u);
}

TEST_F(StoreFacesTest, StreamsOfOneIdInOtherRunsAndRanksAreOtherStreams) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"s", 0, {}}).ok());
  const TestTensor a = MakeTensor("r", 0, "a", 64, 1);
  TestTensor b = MakeTensor("r", 0, "b", 64, 2);
  b.key.rank = 1;
  const TestTensor c = MakeTensor("s", 0, "c", 64, 3);
  ASSERT_TRUE(Append(TestChunks(9, 0, {a})).ok());
  TestChunks others(9, 0, {b});
  others.Add(9, 0, {c});
  ASSERT_TRUE(Append(std::move(others)).ok());
  for (const TestTensor& tensor : {a, b, c}) ExpectStored(tensor);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 9), 1u);
    EXPECT_EQ(*store_->log().CommittedChunkCount("r", 1, 9), 1u);
    EXPECT_EQ(*store_->log().CommittedChunkCount("s", 0, 9), 1u);
    EXPECT_EQ(*store_->log().CommittedChunkCount("s", 1, 9), 0u);
    EXPECT_EQ(*store_->log().CommittedChunkCount("nobody", 0, 9), 0u);
    Drop();
    Open();
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 1, 9), 0u);
  EXPECT_EQ(*store_->log().CommittedChunkCount("s", 0, 9), 1u);
}

TEST_F(StoreFacesTest, UnknownAndSealedRunsTakeNothing) {
  OpenWithRun("sealed");
  ASSERT_TRUE(store_->runs().CreateRun({"open", 0, {}}).ok());
  ASSERT_TRUE(store_->runs().SealRun("sealed").ok());
  absl::Status status = Append({MakeTensor("nobody", 0, "a", 64)});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(status), "RUN_NOT_FOUND");

  TestChunks chunks(1, 0, {MakeTensor("open", 0, "a", 64)});
  chunks.Add(2, 0, {MakeTensor("sealed", 0, "a", 64)});
  status = store_->log().Append(chunks.span());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reason(status), "RUN_SEALED");
  EXPECT_THAT(ScanKeys("open"), IsEmpty());
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
}

TEST_F(StoreFacesTest, RunsAreMadeSealedListedAndKept) {
  Open();
  RunSpec spec{"b", 0, {{"model", "tiny"}, {"dtype", "bf16"}}};
  ASSERT_TRUE(store_->runs().CreateRun(spec).ok());
  EXPECT_EQ(Reason(store_->runs().CreateRun(spec).status()), "RUN_EXISTS");
  EXPECT_EQ(Reason(store_->runs().CreateRun({"", 0, {}}).status()),
            "NAME_INVALID");
  ASSERT_TRUE(store_->runs().CreateRun({"a", 2, {}}).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"c", 0, {}}).ok());
  ASSERT_TRUE(store_->runs().SetWorldSize("b", 8).ok());
  EXPECT_FALSE(store_->runs().SetWorldSize("b", 4).ok());
  ASSERT_TRUE(store_->runs().SealRun("b").ok());
  const auto sealed = store_->runs().SealRun("b");
  ASSERT_TRUE(sealed.ok());
  Drop();
  Open();
  const auto run = store_->runs().GetRun("b");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->id, sealed->id);
  EXPECT_TRUE(run->sealed);
  EXPECT_EQ(run->seal_time_ns, sealed->seal_time_ns);
  EXPECT_GT(run->create_time_ns, 0);
  EXPECT_EQ(run->spec.labels, spec.labels);
  EXPECT_EQ(run->spec.world_size, 8);
  EXPECT_THAT(*store_->runs().ListRuns("", 10), SizeIs(3));
  const auto page = *store_->runs().ListRuns("a", 1);
  ASSERT_THAT(page, SizeIs(1));
  EXPECT_EQ(page[0].spec.name, "b");
  EXPECT_EQ(Reason(store_->runs().GetRun("d").status()), "RUN_NOT_FOUND");
  EXPECT_EQ(store_->upkeep().Stats().run_count, 3u);
}

TEST_F(StoreFacesTest, LabelsAndPoliciesOfAllRunsAreBounded) {
  Open();
  const std::map<std::string, std::string> labels = {
      {"k", std::string(7 << 20, 'v')}};
  // The remaining space is reserved for owners that use little.
  const auto create = [&](const char* run, const char* owner) {
    return store_->runs().CreateRun({run, 0, labels, "", owner}).status();
  };
  for (const char* run : {"a", "b", "c"}) ASSERT_TRUE(create(run, "1").ok());
  EXPECT_EQ(Reason(create("d", "1")), "RUNS_EXHAUSTED");
  EXPECT_EQ(Reason(create("d", "2")), "RUNS_EXHAUSTED");
  ASSERT_TRUE(store_->runs().CreateRun({"d", 0, {}, "", "2"}).ok());
  const auto refused = store_->runs().CreateRun({"e", 0, labels});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused.status()), "RUNS_EXHAUSTED");
  ASSERT_TRUE(store_->runs().CreateRun({"e", 0, {}}).ok());
  const std::string policy(5 << 20, 'p');
  EXPECT_EQ(Reason(store_->runs().SetCapturePolicy("e", policy).status()),
            "RUNS_EXHAUSTED");
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  ASSERT_TRUE(store_->runs().SetCapturePolicy("e", policy).ok());
  // The policy replaces itself.
  ASSERT_TRUE(store_->runs().SetCapturePolicy("e", policy).ok());
  Drop();
  Open();
  EXPECT_EQ(Reason(store_->runs().CreateRun({"f", 0, labels}).status()),
            "RUNS_EXHAUSTED");
  // Labels count with their overhead, even if each of them is small.
  std::map<std::string, std::string> many;
  for (int i = 0; i < 100'000; ++i) many[std::to_string(i)] = "";
  EXPECT_EQ(Reason(store_->runs().CreateRun({"f", 0, many}).status()),
            "RUNS_EXHAUSTED");
}

TEST_F(StoreFacesTest, CoverageOutlivesTheProcessAndTheStreams) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({"run", 0, {}}).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
  const auto report = [&](const char* run, int32_t rank, uint64_t stream_id,
                          const StreamCoverage& coverage) {
    return store_->log()
        .ReportCoverage(run, rank, stream_id, coverage)
        .value_or(StreamCoverage{.seen_count = 99});
  };
  using Rise = StreamCoverage;
  EXPECT_EQ(report("run", 258, 7, {}), Rise());
  EXPECT_EQ(report("run", 1, 7, {10, 2, 3, 1}), (Rise{10, 2, 3, 1}));
  EXPECT_EQ(report("other", 1, 7, {5, 5, 0, 0}), (Rise{5, 5}));
  Drop();
  Open();
  // The stream is reopened. It repeats its last report, and then sends a larger
  // one.
  EXPECT_EQ(report("run", 1, 7, {10, 2, 3, 1}), Rise());
  EXPECT_EQ(report("run", 1, 7, {12, 2, 4, 2, 3, 50, 900}),
            (Rise{2, 0, 1, 1, 3, 50, 900}));
  EXPECT_EQ(report("run", 1, 8, {100, 0, 1, 0, 4, 7, 60}),
            (Rise{100, 0, 1, 0, 4, 7, 60}));
  ASSERT_TRUE(store_->runs().SealRun("run").ok());
  Drop();
  Open();
  EXPECT_THAT(*read_->ListCoverage("run"),
              ElementsAre(RankCoverage{1, 2, {112, 2, 5, 2, 7, 57, 960}},
                          RankCoverage{258, 1, {}}));
  EXPECT_EQ(store_->runs().GetRun("run")->counters.dropped_count, 5u);
  EXPECT_EQ(store_->runs().GetRun("run")->counters.truncated_count, 2u);
  EXPECT_EQ(Reason(read_->ListCoverage("none").status()), "RUN_NOT_FOUND");
  ASSERT_TRUE(store_->runs().DeleteRun("run").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"run", 0, {}}).ok());
  EXPECT_THAT(*read_->ListCoverage("run"), IsEmpty());
  EXPECT_THAT(*read_->ListCoverage("other"), SizeIs(1));
}

TEST_F(StoreFacesTest, RepeatsOfAStreamAreKeptWithItsRank) {
  OpenWithRun("r");
  TestTensor first = MakeTensor("r", 0, "op", 256, 1);
  TestTensor other = MakeTensor("r", 0, "op", 256, 2);
  first.key.rank = other.key.rank = 3;
  ASSERT_TRUE(Append({first}).ok());
  TestChunks again(kStream + 1, 0, {first, other, other});
  ASSERT_TRUE(store_->log().Append(again.span()).ok());
  EXPECT_EQ(again.span()[0].conflict_count(), 2u);
  ASSERT_TRUE(store_->log().ReportCoverage("r", 1, 7, {10, 0, 0, 0}).ok());
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  Drop();
  Open();
  RankCoverage repeated;
  repeated.rank = 3;
  repeated.repeats = {3, 2};
  EXPECT_THAT(*read_->ListCoverage("r"),
              ElementsAre(RankCoverage{1, 1, {10, 0, 0, 0}}, repeated));
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  EXPECT_THAT(*read_->ListCoverage("r"), IsEmpty());
}

TEST_F(StoreFacesTest, ChunksOfOtherStreamsAreKnownUntilTheRunIsSealed) {
  OpenWithRun("r");
  const auto is_other = [this](int32_t rank, uint32_t process,
                               uint32_t number = 9) {
    return *store_->log().HasChunksOfOthers("r", rank,
                                            MakeStreamId(process, number));
  };
  const auto append = [this](uint32_t process, int32_t rank) {
    TestTensor tensor = MakeTensor("r", 0, "a", 64);
    tensor.key.rank = rank;
    return Append(TestChunks(MakeStreamId(process, 5), 0, {tensor}));
  };
  EXPECT_FALSE(is_other(2, 7));
  ASSERT_TRUE(append(7, 2).ok());
  EXPECT_FALSE(is_other(2, 7, 5));
  EXPECT_TRUE(is_other(2, 7));
  EXPECT_TRUE(is_other(2, 6));
  EXPECT_TRUE(is_other(2, 8));
  EXPECT_TRUE(is_other(2, UINT32_MAX));
  EXPECT_FALSE(is_other(1, 8));
  EXPECT_FALSE(is_other(3, 6));
  EXPECT_FALSE(*store_->log().HasChunksOfOthers("none", 2, 1));
  ASSERT_TRUE(append(8, 2).ok());
  EXPECT_TRUE(is_other(2, 7, 5));
  EXPECT_TRUE(is_other(2, 8, 5));
  ASSERT_TRUE(store_->runs().SetJob("r", "launch").ok());
  Drop();
  Open();
  EXPECT_TRUE(is_other(2, 7));
  EXPECT_EQ(store_->runs().GetRun("r")->spec.job, "launch");
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  EXPECT_FALSE(is_other(2, 6));
}

TEST_F(StoreFacesTest, ContinuationsAreDurableAndGoWithTheirRun) {
  OpenWithRun("r");
  const RunContinuations first{
      .jobs = {{.job = "launch", .number = 1, .first_token = 3}},
      .rank = RankContinuation{.number = 1, .stream_id = 9}};
  ASSERT_TRUE(store_->runs().SetContinuations("r", 2, first, true).ok());
  RunContinuations second = first;
  second.jobs.clear();
  second.rank->stream_id = 10;
  ASSERT_TRUE(store_->runs().SetContinuations("r", 3, second, false).ok());
  Drop();
  Open();
  EXPECT_EQ(store_->runs().GetContinuations("r", 2)->jobs, first.jobs);
  EXPECT_EQ(store_->runs().GetContinuations("r", 2)->rank, first.rank);
  EXPECT_EQ(store_->runs().GetContinuations("r", 3)->jobs, first.jobs);
  EXPECT_EQ(store_->runs().GetContinuations("r", 3)->rank, second.rank);
  EXPECT_FALSE(store_->runs().GetContinuations("r", 4)->rank.has_value());
  EXPECT_TRUE(absl::IsNotFound(
      store_->runs().SetContinuations("none", 0, first, true)));
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  EXPECT_TRUE(store_->runs().GetContinuations("r", 2)->jobs.empty());
}

TEST_F(StoreFacesTest, StreamsOfASealedRunAreForgotten) {
  OpenWithRun("r");
  ASSERT_TRUE(Append(TestChunks(5, 0, {MakeTensor("r", 0, "a", 64)})).ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 5), 1u);
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 5), 0u);
}

TEST_F(StoreFacesTest, FullSegmentIsFollowedByTheNext) {
  options_.segment_bytes_max = 64 << 10;
  OpenWithRun("r");
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(MakeTensor("r", i, "op", 30000, i + 1));
    ASSERT_TRUE(Append({tensors.back()}).ok());
  }
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 5u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  ASSERT_TRUE(store_->Close().ok());
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 0u);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 5u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreFacesTest, SecondOpenOfAStoreInUseIsRefused) {
  Open();
  const auto second = Store::Open(options_, Env::Posix());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  Drop();
  Open();
}

TEST_F(StoreFacesTest, ClosedStoreTakesNothing) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_FALSE(Append({MakeTensor("r", 0, "a", 64)}).ok());
}

TEST_F(StoreFacesTest, ParentDirectoryMustExist) {
  options_.directory = dir_ / "missing/store";
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreFacesTest, SegmentsWithoutAnIndexAreNoStore) {
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 0, "a", 64)}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  std::filesystem::remove_all(options_.directory + "/index");
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(std::filesystem::exists(SegmentPath(1)));
}

TEST_F(StoreFacesTest, ComparisonsKeepDocumentsAndRows) {
  Open();
  EXPECT_EQ(*store_->comparisons().CreateComparison("one", {}), 1u);
  EXPECT_EQ(*store_->comparisons().CreateComparison("two", {}), 2u);
  const std::vector<std::string> rows = {"r0", std::string("r\0 1", 4), ""};
  ASSERT_TRUE(store_->comparisons().PutComparisonRows(1, 0, rows).ok());
  ASSERT_TRUE(store_->comparisons().PutComparison(1, "one, done").ok());
  Drop();
  Open();
  EXPECT_EQ(*store_->comparisons().GetComparison(1), "one, done");
  EXPECT_THAT(*store_->comparisons().GetComparisonRows(1, 0, 10),
              ElementsAre(rows[0], rows[1], rows[2]));
  EXPECT_THAT(*store_->comparisons().GetComparisonRows(1, 1, 1),
              ElementsAre(rows[1]));
  EXPECT_THAT(*store_->comparisons().GetComparisonRows(2, 0, 10), IsEmpty());
  EXPECT_THAT(*store_->comparisons().ListComparisons(1, 10),
              ElementsAre(std::pair<uint64_t, std::string>(2, "two")));
  ASSERT_TRUE(store_->comparisons().DeleteComparison(1).ok());
  EXPECT_EQ(Reason(store_->comparisons().GetComparison(1).status()),
            "COMPARISON_NOT_FOUND");
  EXPECT_FALSE(store_->comparisons().GetComparisonRows(1, 0, 10).ok());
  EXPECT_FALSE(store_->comparisons().PutComparison(1, "x").ok());
  EXPECT_FALSE(store_->comparisons().PutComparisonRows(1, 0, rows).ok());
  EXPECT_FALSE(store_->comparisons().DeleteComparison(1).ok());
  EXPECT_EQ(*store_->comparisons().CreateComparison("three", {}), 3u);
}

TEST_F(StoreFacesTest, RowsOfComparisonsAreReadAsTheyWereLastPut) {
  Open();
  for (const uint64_t id : {1, 2})
    ASSERT_EQ(*store_->comparisons().CreateComparison("", {}), id);
  std::mt19937 rng(3);
  std::vector<std::string> expected;
  for (int step = 0; step < 60; ++step) {
    // Appends rows, or replaces existing ones.
    const size_t first =
        step % 3 == 2 ? rng() % expected.size() : expected.size();
    std::vector<std::string> rows(rng() % 150);
    for (std::string& row : rows)
      row = std::string(rng() % 300, "abc"[step % 3]);
    ASSERT_TRUE(store_->comparisons().PutComparisonRows(1, first, rows).ok());
    expected.resize(std::max(expected.size(), first + rows.size()));
    std::copy(rows.begin(), rows.end(),
              expected.begin() + static_cast<ptrdiff_t>(first));
    const size_t from = rng() % (expected.size() + 1);
    const size_t count = std::min<size_t>(expected.size() - from, rng() % 200);
    const auto begin = expected.begin() + static_cast<ptrdiff_t>(from);
    EXPECT_EQ(
        *store_->comparisons().GetComparisonRows(1, from, count),
        std::vector<std::string>(begin, begin + static_cast<ptrdiff_t>(count)));
  }
  EXPECT_EQ(*store_->comparisons().GetComparisonRows(1, 0, expected.size() + 1),
            expected);
  EXPECT_THAT(*store_->comparisons().GetComparisonRows(2, 0, 10), IsEmpty());
}

TEST_F(StoreFacesTest, RowsOfComparisonsLeaveNoGap) {
  Open();
  ASSERT_EQ(*store_->comparisons().CreateComparison("", {}), 1u);
  const auto put = [this](uint64_t first, size_t count) {
    return store_->comparisons()
        .PutComparisonRows(1, first, std::vector<std::string>(count))
        .code();
  };
  EXPECT_EQ(put(1, 1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(put(0, 64), absl::StatusCode::kOk);
  EXPECT_EQ(put(65, 1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(put(128, 1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(put(64, 1), absl::StatusCode::kOk);
}

TEST_F(StoreFacesTest, ReadersGoOnWhileChunksAreAppended) {
  options_.segment_bytes_max = 256 << 10;
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 5000, 1)}).ok());
  std::thread writer([this] {
    for (int i = 1; i < 100; ++i) {
      ASSERT_TRUE(Append({MakeTensor("r", i, "op", 5000, i + 1)}).ok());
    }
  });
  size_t seen = 0;
  while (seen < 100) {
    const std::vector<TensorKey> keys = ScanKeys("r");
    ASSERT_GE(keys.size(), seen);
    seen = keys.size();
    ExpectStored(MakeTensor("r", keys.back().token, "op", 5000,
                            static_cast<uint32_t>(keys.back().token) + 1));
    ASSERT_EQ(read_->ListCoordinates("r", {})->size() >= seen, true);
  }
  writer.join();
}

TEST_F(StoreFacesTest, AStoreOfANewerProgramIsRefusedAndSaysSo) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  {
    auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    ASSERT_TRUE(db.ok()) << db.status();
    std::string newer = EncodeStoreId(5);
    newer[0] = static_cast<char>(StoreVersion() + 1);
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kMeta, "store", newer);
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  }
  const absl::Status status = TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr(fmt::format("of version {}, written by a newer msitd",
                                    StoreVersion() + 1)));
}

}  // namespace
}  // namespace msitd::storage
