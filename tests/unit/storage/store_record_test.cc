// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "storage/check/store_check.h"
#include "tests/support/either_store.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of values, documents, and tensors whose bytes arrived with another
// record.
namespace msitd::storage {
namespace {

using msitd::testing::MakeAlias;
using msitd::testing::MakeDigest;
using msitd::testing::MakeStatistics;
using msitd::testing::MakeValue;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TestTensor MakeDocument(const std::string& run, uint64_t bytes) {
  TestTensor out = MakeTensor(run, 0, "module_tree.json", bytes);
  out.key.io = Io::kState;
  out.key.index = "";
  out.kind = RecordKind::kDocument;
  return out;
}

class RecordTest : public msitd::testing::EitherStoreTest {
 protected:
  RecordTest() { EXPECT_TRUE(store_.runs().CreateRun({"r", 0, {}}).ok()); }

  absl::Status Append(const std::vector<TestTensor>& records,
                      uint32_t flags = 0) {
    TestChunks chunks(77, next_chunk_++, records);
    chunks.span()[0].header().flags = flags;
    return store_.log().Append(chunks.span());
  }

  TensorInfo Get(const TensorKey& key) {
    const auto info = read_.GetTensor(key);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(TensorInfo());
  }

  void ExpectBytes(const TestTensor& tensor) {
    const TensorInfo info = Get(tensor.key);
    std::vector<std::byte> bytes;
    AlignedBuffer buffer;
    for (const PartInfo& part : info.parts) {
      const auto span = read_.ReadPart("r", part, buffer);
      ASSERT_TRUE(span.ok()) << span.status();
      bytes.insert(bytes.end(), span->begin(), span->end());
    }
    EXPECT_EQ(info.shape, tensor.dims);
    EXPECT_TRUE(bytes == tensor.bytes);
  }

  std::vector<std::string> ScanValues(std::vector<RecordKind> kinds) {
    Selector selector;
    selector.kinds = std::move(kinds);
    std::vector<std::string> out;
    auto scan = read_.Scan("r", selector, "");
    EXPECT_TRUE(scan.ok());
    TensorInfo info;
    while ((*scan)->Next(info).value_or(false)) {
      out.push_back(info.kind == RecordKind::kTensor ? info.key.op
                                                     : info.value);
    }
    return out;
  }

  RunCounters Counters() { return store_.runs().GetRun("r")->counters; }

  uint64_t next_chunk_ = 0;
  NamedRuns read_{store_.readers()};
};

MSITD_ON_BOTH_STORES(RecordTest);

TEST_P(RecordTest, KeepsValues) {
  const std::vector<TestTensor> values = {
      MakeValue("r", 3, RecordKind::kNumber, "0", "0"),
      MakeValue("r", 3, RecordKind::kText, "1", ""),
      MakeValue("r", 3, RecordKind::kNone, "2", "None"),
      MakeValue("r", 3, RecordKind::kDType, "3", "torch.float32"),
      MakeValue("r", 3, RecordKind::kOther, "4", "slice(None, 4, None)")};
  ASSERT_TRUE(Append(values).ok());
  for (const TestTensor& value : values) {
    const TensorInfo info = Get(value.key);
    EXPECT_EQ(info.kind, value.kind);
    EXPECT_EQ(info.value, value.value);
    EXPECT_EQ(info.shape, value.dims);
    ExpectBytes(value);
  }
  EXPECT_EQ(Get(values[3].key).hash,
            chunk::HashBytes(std::as_bytes(std::span(*values[3].value))));
  EXPECT_EQ(Counters().value_count, 5u);
  EXPECT_EQ(Counters().document_count, 0u);
  EXPECT_EQ(Counters().tensor_count, 0u);
  EXPECT_EQ(Counters().token_end, 4);
}

TEST_P(RecordTest, KeepsStatisticsAtAnyLevel) {
  const TestTensor tensor = MakeTensor("r", 3, "linear", 64);
  int op = 0;
  for (const uint32_t flags :
       {0u, chunk::kSampleFlag, chunk::kSummaryOnlyFlag}) {
    const TestTensor statistics = MakeStatistics(
        "r", 3, std::to_string(op++), "{\"max\": 1, \"min\": \"nan\"}");
    ASSERT_TRUE(Append({statistics, tensor}, flags).ok());
    const TensorInfo info = Get(statistics.key);
    EXPECT_EQ(info.kind, RecordKind::kStatistics);
    EXPECT_EQ(info.value, statistics.value);
    EXPECT_EQ(info.dtype, DType::kFloat32);
    EXPECT_THAT(info.shape, ElementsAre(2, 3));
    EXPECT_EQ(info.tensor_bytes, 0u);
    EXPECT_FALSE(info.has_bytes);
    EXPECT_FALSE(info.has_sample);
    EXPECT_EQ(info.hash,
              chunk::HashBytes(std::as_bytes(std::span(*statistics.value))));
  }
  EXPECT_EQ(Counters().statistics_count, 3u);
  EXPECT_EQ(Counters().value_count, 0u);
  EXPECT_EQ(Counters().tensor_count, 1u);
  EXPECT_EQ(Counters().record_count(), 4u);
  EXPECT_EQ(ScanValues({}).size(), 1u);
  EXPECT_EQ(ScanValues({RecordKind::kStatistics}).size(), 3u);
}

TEST_P(RecordTest, OtherStatisticsAreAConflictAndEqualOnesARepetition) {
  ASSERT_TRUE(Append({MakeStatistics("r", 0, "op", "{\"max\": 1}")}).ok());
  ASSERT_TRUE(Append({MakeStatistics("r", 0, "op", "{\"max\": 1}")}).ok());
  EXPECT_EQ(Counters().duplicate_count, 1u);
  ASSERT_TRUE(Append({MakeStatistics("r", 0, "op", "{\"max\": 2}")}).ok());
  EXPECT_EQ(Counters().conflict_count, 1u);
  EXPECT_EQ(Counters().statistics_count, 1u);
}

TEST_P(RecordTest, KeepsWhatATensorHasBesides) {
  TestTensor tensor = MakeTensor("r", 0, "linear", 64);
  tensor.requires_grad = false;
  tensor.stack = "a.py:1 f\nb.py:2 g";
  TestTensor other = MakeTensor("r", 0, "relu", 64);
  ASSERT_TRUE(Append({tensor, other}).ok());
  EXPECT_EQ(Get(tensor.key).requires_grad, false);
  EXPECT_EQ(Get(tensor.key).stack, tensor.stack);
  EXPECT_EQ(Get(other.key).requires_grad, std::nullopt);
  EXPECT_EQ(Get(other.key).stack, "");
  EXPECT_EQ(Get(other.key).alias_of, std::nullopt);
}

TEST_P(RecordTest, KeepsDocumentsOfManyParts) {
  const TestTensor first = MakeDocument("r", kPartBytes + 100);
  TestTensor last = first;
  last.part = 1;
  ASSERT_TRUE(Append({first}).ok());
  ASSERT_TRUE(Append({last}).ok());
  EXPECT_EQ(Get(first.key).kind, RecordKind::kDocument);
  ExpectBytes(first);
  EXPECT_EQ(Counters().value_count, 1u);
  EXPECT_EQ(Counters().document_count, 1u);
}

TEST_P(RecordTest, ScansTheKindsThatAreAskedFor) {
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 8),
                      MakeValue("r", 0, RecordKind::kNumber, "1", "0"),
                      MakeValue("r", 0, RecordKind::kText, "2", "sum")})
                  .ok());
  EXPECT_THAT(ScanValues({}), ElementsAre("op"));
  EXPECT_THAT(ScanValues({RecordKind::kText}), ElementsAre("sum"));
  EXPECT_THAT(ScanValues({RecordKind::kNumber, RecordKind::kTensor}),
              ::testing::UnorderedElementsAre("0", "op"));
  EXPECT_THAT(ScanValues({RecordKind::kDocument}), IsEmpty());
}

TEST_P(RecordTest, AnotherKindUnderTheSameKeyIsAConflict) {
  TestTensor tensor = MakeTensor("r", 0, "op", 8);
  tensor.dtype = DType::kFloat64;
  tensor.dims.clear();
  ASSERT_TRUE(Append({tensor}).ok());
  TestTensor number = tensor;
  number.bytes[0] ^= std::byte{1};
  number.kind = RecordKind::kNumber;
  number.value = "1.5";
  ASSERT_TRUE(Append({number}).ok());
  EXPECT_EQ(Get(tensor.key).kind, RecordKind::kTensor);
  EXPECT_EQ(Counters().conflict_count, 1u);
}

TEST_P(RecordTest, AnAliasHasTheBytesOfItsOriginal) {
  const TestTensor original = MakeTensor("r", 0, "linear", 5000);
  const TestTensor same = MakeAlias(original, "same chunk");
  const TestTensor later = MakeAlias(original, "later chunk");
  const TestTensor again = MakeAlias(later, "alias of an alias");
  ASSERT_TRUE(Append({original, same}).ok());
  ASSERT_TRUE(Append({later}).ok());
  ASSERT_TRUE(Append({again}).ok());
  for (const TestTensor* alias : {&same, &later, &again}) {
    const TensorInfo info = Get(alias->key);
    EXPECT_TRUE(info.has_bytes);
    EXPECT_EQ(info.hash, chunk::HashBytes(original.bytes));
    EXPECT_EQ(info.summary.count, original.bytes.size());
    EXPECT_EQ(info.parts.at(0).place, Get(original.key).parts.at(0).place);
    ExpectBytes(*alias);
  }
  EXPECT_EQ(Get(same.key).alias_of, (AliasOf{"linear", 0, Io::kOutput, "0"}));
  EXPECT_EQ(Get(again.key).alias_of->op, "later chunk");
  EXPECT_EQ(Counters().tensor_count, 4u);
  EXPECT_EQ(Counters().payload_bytes, original.bytes.size());
  EXPECT_EQ(Counters().dangling_count, 0u);
}

TEST_P(RecordTest, KnowsWhatIsTheWordOfTheProducer) {
  TestTensor claimed = MakeTensor("r", 0, "claimed", 5000);
  claimed.digest = MakeDigest(5000, 1);
  claimed.is_sent = false;
  TestTensor checked = MakeTensor("r", 0, "checked", 5000);
  checked.digest = MakeDigest(5000, 1);
  const TestTensor plain = MakeTensor("r", 0, "plain", 5000);
  const TestTensor alias = MakeAlias(claimed, "alias");
  const TestTensor later = MakeAlias(claimed, "later");
  ASSERT_TRUE(
      Append({claimed, checked, plain, alias}, chunk::kSummaryOnlyFlag).ok());
  ASSERT_TRUE(Append({later}, chunk::kSummaryOnlyFlag).ok());
  EXPECT_TRUE(Get(claimed.key).is_claimed);
  EXPECT_EQ(Get(claimed.key).hash, claimed.digest->hash);
  EXPECT_EQ(Get(claimed.key).summary, claimed.digest->summary);
  EXPECT_EQ(Get(claimed.key).tensor_bytes, 5000u);
  EXPECT_EQ(Get(claimed.key).parts.at(0).bytes, 5000u);
  EXPECT_FALSE(Get(claimed.key).has_bytes);
  EXPECT_TRUE(Get(alias.key).is_claimed);
  EXPECT_EQ(Get(alias.key).hash, claimed.digest->hash);
  EXPECT_TRUE(Get(later.key).is_claimed);
  EXPECT_EQ(Get(later.key).summary, claimed.digest->summary);
  EXPECT_FALSE(Get(checked.key).is_claimed);
  EXPECT_EQ(Get(checked.key).hash, chunk::HashBytes(checked.bytes));
  EXPECT_FALSE(Get(plain.key).is_claimed);
}

TEST_P(RecordTest, CountsDigestsOfTheProducer) {
  TestTensor claimed = MakeTensor("r", 0, "claimed", 5000);
  claimed.digest = MakeDigest(5000, 1);
  claimed.is_sent = false;
  TestTensor checked = MakeTensor("r", 0, "checked", 5000);
  checked.digest = MakeDigest(5000, 1);
  TestTensor false_one = checked;
  false_one.key.op = "false";
  TestChunks chunks(77, next_chunk_++, {claimed, checked, false_one});
  chunks.span()[0].records()[2].flags |= chunk::kFalseDigestFlag;
  ASSERT_TRUE(store_.log().Append(chunks.span()).ok());
  ASSERT_TRUE(Append({claimed}, chunk::kSummaryOnlyFlag).ok());
  const auto ranks = read_.ListCoverage("r");
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  ASSERT_EQ(ranks->size(), 1u);
  EXPECT_EQ((*ranks)[0].repeats, (StreamRepeats{.repeated_count = 1,
                                                .claimed_count = 3,
                                                .checked_count = 2,
                                                .false_count = 1}));
}

TEST_P(RecordTest, AliasesHaveParts) {
  TestTensor first = MakeTensor("r", 0, "linear", kPartBytes + 9);
  TestTensor last = first;
  last.part = 1;
  ASSERT_TRUE(Append({first}).ok());
  ASSERT_TRUE(Append({last, MakeAlias(first, "view")}).ok());
  EXPECT_FALSE(read_.GetTensor(MakeAlias(first, "view").key).ok());
  ASSERT_TRUE(Append({MakeAlias(last, "view")}).ok());
  EXPECT_EQ(Get(MakeAlias(first, "view").key).hash, Get(first.key).hash);
  ExpectBytes(MakeAlias(first, "view"));
}

TEST_P(RecordTest, AliasesOfSamplesAndSummariesKeepAsMuch) {
  for (const uint32_t flags : {chunk::kSampleFlag, chunk::kSummaryOnlyFlag}) {
    SCOPED_TRACE(flags);
    const TestTensor original =
        MakeTensor("r", flags, "linear", 5000, flags + 1);
    const TestTensor same = MakeAlias(original, "same");
    const TestTensor later = MakeAlias(original, "later");
    ASSERT_TRUE(Append({original, same}, flags).ok());
    ASSERT_TRUE(Append({later}, flags).ok());
    RunReader* const run = *read_.Open("r");
    const TensorInfo expected = Get(original.key);
    AlignedBuffer one;
    AlignedBuffer other;
    for (const TestTensor* alias : {&same, &later}) {
      const TensorInfo info = Get(alias->key);
      EXPECT_EQ(info.has_sample, flags == chunk::kSampleFlag);
      EXPECT_FALSE(info.has_bytes);
      EXPECT_EQ(info.hash, expected.hash);
      if (!info.has_sample) continue;
      const auto a = run->ReadSample(expected, 0, one);
      const auto b = run->ReadSample(info, 0, other);
      ASSERT_TRUE(a.ok() && b.ok()) << b.status();
      EXPECT_TRUE(std::equal(a->begin(), a->end(), b->begin(), b->end()));
    }
  }
}

TEST_P(RecordTest, AnAliasWithoutItsOriginalIsCountedAndNotKept) {
  const TestTensor original = MakeTensor("r", 0, "linear", 512);
  const TestTensor lost = MakeTensor("r", 0, "lost", 512);
  TestTensor reshaped = MakeAlias(original, "reshaped");
  reshaped.dims = {2, 256};
  TestTensor other_token = MakeAlias(original, "other token");
  other_token.key.token = 1;
  ASSERT_TRUE(Append({original}).ok());
  ASSERT_TRUE(Append({MakeAlias(lost, "missing"), reshaped}).ok());
  ASSERT_TRUE(Append({other_token}).ok());
  ASSERT_TRUE(Append({MakeAlias(original, "less")}, chunk::kSampleFlag).ok());
  ASSERT_TRUE(Append({MakeAlias(MakeAlias(lost, "missing"), "next")}).ok());
  EXPECT_EQ(Counters().dangling_count, 5u);
  EXPECT_EQ(Counters().tensor_count, 1u);
  EXPECT_THAT(ScanValues({}), ElementsAre("linear"));
  EXPECT_EQ(read_.ListCoverage("r")->at(0).repeats.dangling_count, 5u);
}

TEST_P(RecordTest, RecordsThatComeAgainAreDuplicates) {
  const TestTensor original = MakeTensor("r", 0, "linear", 512);
  const std::vector<TestTensor> records = {
      original, MakeAlias(original, "view"),
      MakeValue("r", 0, RecordKind::kText, "1", "sum")};
  ASSERT_TRUE(Append(records).ok());
  ASSERT_TRUE(Append(records).ok());
  EXPECT_EQ(Counters().duplicate_count, 3u);
  EXPECT_EQ(Counters().conflict_count, 0u);
  ExpectBytes(records[1]);
  ASSERT_TRUE(Append({MakeValue("r", 0, RecordKind::kText, "1", "mean")}).ok());
  EXPECT_EQ(Counters().conflict_count, 1u);
}

// Tests that need a real store.
class StoreRecordTest : public StoreTest {
 protected:
  // Returns the problems that `msitd-inspect verify` finds.
  std::vector<std::string> Problems() {
    std::vector<std::string> problems;
    auto view = StoreView::Open(options_.directory, Env::Posix());
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return problems;
    const auto report = CheckStore(*view, [&](const StoreProblem& problem) {
      problems.push_back(problem.what);
    });
    EXPECT_TRUE(report.ok()) << report.status();
    return problems;
  }

  absl::Status AppendFlagged(const std::vector<TestTensor>& records,
                             uint32_t flags) {
    TestChunks chunks(kStream, next_chunk_++, records);
    chunks.span()[0].header().flags = flags;
    return Append(std::move(chunks));
  }

  void AppendAll() {
    ASSERT_TRUE(Append({original_, MakeAlias(original_, "same")}).ok());
    ASSERT_TRUE(Append({MakeAlias(original_, "later"), value_}).ok());
    ASSERT_TRUE(Append({MakeAlias(lost_, "dangling")}).ok());
    ASSERT_TRUE(AppendFlagged({sampled_, MakeAlias(sampled_, "less"), value2_},
                              chunk::kSampleFlag)
                    .ok());
  }

  void ExpectAll() {
    ExpectStored(original_);
    ExpectStored(MakeAlias(original_, "same"));
    ExpectStored(MakeAlias(original_, "later"));
    EXPECT_EQ(read_->GetTensor(value_.key)->value, "sum");
    EXPECT_EQ(read_->GetTensor(value_.key)->stack, "a.py:1 f");
    EXPECT_EQ(read_->GetTensor(value2_.key)->value, "None");
    ExpectAbsent(MakeAlias(lost_, "dangling").key);
    EXPECT_TRUE(read_->GetTensor(MakeAlias(sampled_, "less").key)->has_sample);
    const RunCounters counters = store_->runs().GetRun("r")->counters;
    EXPECT_EQ(counters.tensor_count, 5u);
    EXPECT_EQ(counters.value_count, 2u);
    EXPECT_EQ(counters.dangling_count, 1u);
    EXPECT_EQ(counters.duplicate_count, 0u);
  }

  StoreRecordTest() { value_.stack = "a.py:1 f"; }

  const TestTensor original_ = MakeTensor("r", 0, "linear", 5000);
  const TestTensor lost_ = MakeTensor("r", 0, "lost", 512);
  const TestTensor sampled_ = MakeTensor("r", 1, "sampled", 5000, 3);
  TestTensor value_ = MakeValue("r", 0, RecordKind::kText, "1", "sum");
  const TestTensor value2_ = MakeValue("r", 1, RecordKind::kNone, "2", "None");
};

TEST_F(StoreRecordTest, OutlivesARestart) {
  OpenWithRun("r");
  AppendAll();
  ASSERT_TRUE(store_->Close().ok());
  Open();
  ExpectAll();
  ASSERT_TRUE(Append({MakeAlias(original_, "after the restart")}).ok());
  ExpectStored(MakeAlias(original_, "after the restart"));
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreRecordTest, IsRebuiltFromFrames) {
  OpenWithRun("r");
  AppendAll();
  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 4u);
  ExpectAll();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreRecordTest, AResentChunkChangesNothing) {
  OpenWithRun("r");
  const std::vector<TestTensor> records = {original_,
                                           MakeAlias(original_, "same")};
  ASSERT_TRUE(Append(TestChunks(1, 0, records)).ok());
  ASSERT_TRUE(Append(TestChunks(1, 0, records)).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 0u);
  ASSERT_TRUE(Append(TestChunks(2, 0, records)).ok());
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 2u);
  ExpectStored(records[1]);
}

TEST_F(StoreRecordTest, BytesOfAnAliasGoWithThoseOfItsOriginal) {
  options_.segment_bytes_max = 4096;
  OpenWithRun("r");
  ASSERT_TRUE(Append({original_}).ok());
  ASSERT_TRUE(Append({MakeAlias(original_, "later")}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 5, "next", 5000)}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 9, "last", 5000)}).ok());
  ASSERT_TRUE(
      store_->runs().SetRetention("r", {false, {.token_count = 5}}).ok());
  for (int i = 0; i < 100 && !store_->upkeep().Retain({})->is_done; ++i) {
  }
  const auto info = read_->GetTensor(MakeAlias(original_, "later").key);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->has_bytes);
  EXPECT_EQ(info->hash, chunk::HashBytes(original_.bytes));
  EXPECT_EQ(Reason(Read(info->key).status()), "TENSOR_EXPIRED");
  const RunCounters counters = store_->runs().GetRun("r")->counters;
  EXPECT_EQ(counters.expired_bytes, original_.bytes.size());
  EXPECT_EQ(counters.kept_bytes(), 10'000u);
  ExpectStored(MakeTensor("r", 5, "next", 5000));
  // A tensor without bytes can still be an original.
  ASSERT_TRUE(Append({MakeAlias(original_, "late")}).ok());
  EXPECT_FALSE(read_->GetTensor(MakeAlias(original_, "late").key)->has_bytes);
}

TEST_F(StoreRecordTest, SharedBytesAreFoundByAliases) {
  options_.segment_bytes_max = 4096;
  OpenWithRun("r");
  const TestTensor weights = MakeTensor("r", 0, "weights", 40'960);
  TestTensor again = weights;
  again.key.token = 1;
  ASSERT_TRUE(Append({weights, MakeAlias(weights, "first")}).ok());
  ASSERT_TRUE(Append({again, MakeAlias(again, "second")}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Open();
  uint64_t shared_bytes = 0;
  for (int i = 0; i < 100; ++i) {
    const auto step = store_->upkeep().Share();
    ASSERT_TRUE(step.ok()) << step.status();
    shared_bytes += step->shared_bytes;
    if (step->is_done) break;
  }
  EXPECT_EQ(shared_bytes, weights.bytes.size());
  ExpectStored(MakeAlias(weights, "first"));
  ExpectStored(MakeAlias(again, "second"));
  ASSERT_TRUE(Append({MakeAlias(weights, "third")}).ok());
  ExpectStored(MakeAlias(weights, "third"));
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreRecordTest, ADeletedRunTakesItsSegmentsAlong) {
  OpenWithRun("r");
  AppendAll();
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Open();
  EXPECT_FALSE(std::filesystem::exists(SegmentPath(1)));
}

TEST_F(StoreRecordTest, NamesOfStacksAndOriginalsStayWhileTheyAreUsed) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"gone", 0, {}}).ok());
  TestTensor original = original_;
  original.stack = "a.py:1 f";
  TestTensor other = MakeTensor("gone", 0, "linear", 512);
  other.stack = original.stack;
  ASSERT_TRUE(Append(TestChunks(2, 0, {other})).ok());
  ASSERT_TRUE(Append({original, MakeAlias(original, "view")}).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("gone").ok());
  for (int i = 0; i < 1000; ++i) {
    const auto is_done = store_->upkeep().Tidy();
    ASSERT_TRUE(is_done.ok()) << is_done.status();
    if (*is_done) break;
  }
  ASSERT_TRUE(store_->Close().ok());
  Open();
  EXPECT_EQ(read_->GetTensor(original.key)->stack, "a.py:1 f");
  EXPECT_EQ(read_->GetTensor(MakeAlias(original, "view").key)->alias_of->op,
            "linear");
}

}  // namespace
}  // namespace msitd::storage
