// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "protos/base/sample.h"
#include "storage/inspect/inspect_command.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of chunks of which samples are kept.
namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreSampleTest : public StoreTest {
 protected:
  absl::Status AppendSamples(const std::vector<TestTensor>& records,
                             uint32_t flags = chunk::kSampleFlag) {
    TestChunks chunks(kStream, next_chunk_++, records);
    chunks.span()[0].header().flags = flags;
    return store_->log().Append(chunks.span());
  }

  // Returns a float32 tensor of `element_count` elements.
  static TestTensor Floats(int64_t token, const std::string& op,
                           int64_t element_count, uint32_t seed = 1) {
    TestTensor tensor = MakeTensor(
        "r", token, op, 4 * static_cast<uint64_t>(element_count), seed);
    tensor.dtype = DType::kFloat32;
    tensor.dims = {element_count};
    return tensor;
  }

  static std::vector<std::byte> NaiveSample(const TestTensor& tensor) {
    const uint64_t bytes = ElementBytes(tensor.dtype);
    const uint64_t count = tensor.bytes.size() / bytes;
    const uint64_t step = std::max<uint64_t>((count + 1023) / 1024, 1);
    std::vector<std::byte> out;
    for (uint64_t i = 0; i < count; i += step) {
      const auto at = tensor.bytes.begin() + i * bytes;
      out.insert(out.end(), at, at + bytes);
    }
    return out;
  }

  absl::StatusOr<std::vector<std::byte>> ReadSample(const TensorKey& key) {
    MSITD_ASSIGN_OR_RETURN(RunReader* const run, read_->Open(key.run));
    MSITD_ASSIGN_OR_RETURN(const TensorInfo info, run->GetTensor(key));
    std::vector<std::byte> out;
    AlignedBuffer buffer;
    for (size_t i = 0; i < info.parts.size(); ++i) {
      MSITD_ASSIGN_OR_RETURN(const auto span, run->ReadSample(info, i, buffer));
      out.insert(out.end(), span.begin(), span.end());
    }
    return out;
  }

  // Expects the summary, the hash and the sample of the tensor, but not its
  // bytes.
  void ExpectSampled(const TestTensor& tensor) {
    SCOPED_TRACE(tensor.key.op);
    const auto info = read_->GetTensor(tensor.key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->shape, tensor.dims);
    EXPECT_EQ(info->tensor_bytes, tensor.bytes.size());
    EXPECT_EQ(info->summary.count, tensor.bytes.size());
    EXPECT_FALSE(info->has_bytes);
    EXPECT_TRUE(info->has_sample);
    EXPECT_EQ(Reason(Read(tensor.key).status()), "TENSOR_EXPIRED");
    const auto sample = ReadSample(tensor.key);
    ASSERT_TRUE(sample.ok()) << sample.status();
    EXPECT_TRUE(*sample == NaiveSample(tensor));
  }

  void ExpectNoSample(const TensorKey& key) {
    const auto info = read_->GetTensor(key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_FALSE(info->has_bytes);
    EXPECT_FALSE(info->has_sample);
    EXPECT_EQ(Reason(ReadSample(key).status()), "TENSOR_EXPIRED");
  }

  std::string Inspect(const char* verb, InspectExit expected) {
    const std::string directory = options_.directory;
    const std::array argv = {"msitd-inspect", verb, "--data-dir",
                             directory.c_str()};
    std::ostringstream out;
    EXPECT_EQ(RunInspect(argv.size(), argv.data(), out, out), expected)
        << out.str();
    return out.str();
  }

  void Flip(int segment, uint64_t offset) {
    std::fstream file(SegmentPath(segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    ASSERT_NE(byte, EOF);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(~byte));
  }

  // The sample of a tensor of Floats that is longer than the sample.
  static constexpr uint64_t kSampleBytes = 4 * 1000;
  static constexpr int64_t kElements = 3000;
  // The header of the segment has one page, and each frame has two pages.
  static constexpr uint64_t HeadOf(uint64_t frame) {
    return 4096 + 8192 * frame;
  }
  static constexpr uint64_t PayloadOf(uint64_t frame) {
    return HeadOf(frame) + 4096;
  }
};

TEST_F(StoreSampleTest, TakesRoomForHeadsAndSamples) {
  OpenWithRun("r");
  const TestTensor large = Floats(0, "large", kPartBytes / 4);
  ASSERT_TRUE(AppendSamples({large}).ok());
  ExpectSampled(large);
  const RunCounters counters = store_->runs().GetRun("r")->counters;
  EXPECT_EQ(counters.tensor_count, 1u);
  EXPECT_EQ(counters.payload_bytes, 4 * 1024u);
  EXPECT_EQ(store_->upkeep().Stats().committed_bytes, 4 * 1024u);
  ASSERT_TRUE(store_->Close().ok());
  // One page each for the header of the segment, the head and the sample.
  EXPECT_EQ(std::filesystem::file_size(SegmentPath(1)), 3 * 4096u);
}

TEST_F(StoreSampleTest, RecordsOfAllSizesComeBack) {
  OpenWithRun("r");
  std::vector<TestTensor> tensors;
  for (const int64_t count : {0, 1, 5, 1023, 1024, 1025, 2048, 2049, 90'000}) {
    tensors.push_back(Floats(0, fmt::format("op{}", count), count,
                             static_cast<uint32_t>(count + 1)));
  }
  TestTensor narrow = MakeTensor("r", 0, "narrow", 5001, 7);
  tensors.push_back(narrow);
  ASSERT_TRUE(AppendSamples(tensors).ok());
  for (const TestTensor& tensor : tensors) ExpectSampled(tensor);
  Drop();
  Open();
  for (const TestTensor& tensor : tensors) ExpectSampled(tensor);
}

TEST_F(StoreSampleTest, SampleOfAFullyStoredTensorIsTakenFromItsBytes) {
  OpenWithRun("r");
  std::vector<TestTensor> tensors;
  for (const int64_t count : {0, 1, 1024, 1025, 90'000}) {
    tensors.push_back(Floats(0, fmt::format("op{}", count), count));
  }
  ASSERT_TRUE(Append(tensors).ok());
  for (const TestTensor& tensor : tensors) {
    ExpectStored(tensor);
    EXPECT_FALSE(read_->GetTensor(tensor.key)->has_sample);
    const auto sample = ReadSample(tensor.key);
    ASSERT_TRUE(sample.ok()) << sample.status();
    EXPECT_TRUE(*sample == NaiveSample(tensor));
  }
}

TEST_F(StoreSampleTest, PartsOfALargeTensorHaveOneGrid) {
  OpenWithRun("r");
  TestTensor sampled = Floats(0, "sampled", 3 * kPartBytes / 4 + 333);
  TestTensor mixed = sampled;
  mixed.key.op = "mixed";
  for (uint64_t part = 0; part < 4; ++part) {
    sampled.part = mixed.part = part;
    ASSERT_TRUE(AppendSamples({sampled}).ok());
    // Different parts may be kept to a different extent.
    ASSERT_TRUE(
        AppendSamples({mixed}, part % 2 == 0 ? chunk::kSampleFlag : 0).ok());
  }
  ExpectSampled(sampled);
  const auto info = read_->GetTensor(mixed.key);
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->has_bytes);
  EXPECT_TRUE(info->has_sample);
  const auto sample = ReadSample(mixed.key);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_TRUE(*sample == NaiveSample(mixed));
}

TEST_F(StoreSampleTest, PartWithASummaryAloneLeavesNoSample) {
  OpenWithRun("r");
  TestTensor tensor = Floats(0, "op", kPartBytes / 4 + 100);
  ASSERT_TRUE(AppendSamples({tensor}).ok());
  tensor.part = 1;
  ASSERT_TRUE(AppendSamples({tensor}, chunk::kSummaryOnlyFlag).ok());
  const auto info = read_->GetTensor(tensor.key);
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->has_bytes);
  EXPECT_FALSE(info->has_sample);
}

TEST_F(StoreSampleTest, SurvivesACrashBetweenOthers) {
  OpenWithRun("r");
  const TestTensor before = Floats(0, "before", kElements);
  const TestTensor sampled = Floats(0, "sampled", kElements, 2);
  const TestTensor after = Floats(0, "after", kElements, 3);
  ASSERT_TRUE(Append({before}).ok());
  ASSERT_TRUE(AppendSamples({sampled}).ok());
  ASSERT_TRUE(Append({after}).ok());
  EXPECT_THAT(Inspect("verify", InspectExit::kOk),
              HasSubstr("frames=3 records=3"));
  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 3u);
  ExpectStored(before);
  ExpectSampled(sampled);
  ExpectStored(after);
  EXPECT_THAT(ScanOps("r"), ElementsAre("before", "sampled", "after"));
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_THAT(Inspect("verify", InspectExit::kOk),
              HasSubstr(fmt::format("payload_bytes={}",
                                    2 * 4 * kElements + kSampleBytes)));
}

TEST_F(StoreSampleTest, TornSampleIsNeverShownAndCanBeSentAgain) {
  OpenWithRun("r");
  const TestTensor whole = Floats(0, "op", kElements);
  const TestTensor torn = Floats(1, "op", kElements, 2);
  ASSERT_TRUE(AppendSamples({whole}).ok());
  ASSERT_TRUE(AppendSamples({torn}).ok());
  Drop();
  Flip(1, PayloadOf(1) + kSampleBytes - 1);
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  ExpectSampled(whole);
  ExpectAbsent(torn.key);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 1u);
  next_chunk_ = 1;
  ASSERT_TRUE(AppendSamples({torn}).ok());
  ExpectSampled(torn);
}

TEST_F(StoreSampleTest, FrameThatEndsInsideItsSamplesIsTorn) {
  OpenWithRun("r");
  const TestTensor whole = Floats(0, "op", kElements);
  ASSERT_TRUE(AppendSamples({whole}).ok());
  ASSERT_TRUE(AppendSamples({Floats(1, "op", kElements)}).ok());
  Drop();
  std::filesystem::resize_file(SegmentPath(1), PayloadOf(1));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  ExpectSampled(whole);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 1u);
}

TEST_F(StoreSampleTest, DamagedHeadOfSamplesHidesNoOther) {
  OpenWithRun("r");
  for (int token = 0; token < 3; ++token) {
    ASSERT_TRUE(AppendSamples({Floats(token, "op", kElements)}).ok());
  }
  Drop();
  Flip(1, HeadOf(1) + sizeof(chunk::ChunkHeader) + 64);
  Open();
  EXPECT_EQ(store_->upkeep().Stats().corrupt_frame_count, 1u);
  ExpectSampled(Floats(0, "op", kElements));
  ExpectAbsent(Floats(1, "op", kElements).key);
  ExpectSampled(Floats(2, "op", kElements));
}

TEST_F(StoreSampleTest, DamagedSampleIsDataLossAndAProblem) {
  OpenWithRun("r");
  const TestTensor good = Floats(0, "good", kElements);
  const TestTensor bad = Floats(0, "bad", kElements);
  ASSERT_TRUE(AppendSamples({good}).ok());
  ASSERT_TRUE(AppendSamples({bad}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Inspect("verify", InspectExit::kOk);
  Flip(1, PayloadOf(1) + 100);
  const std::string problems = Inspect("verify", InspectExit::kProblems);
  EXPECT_THAT(problems, HasSubstr(fmt::format("offset={}", PayloadOf(1))));
  EXPECT_THAT(problems, HasSubstr("op bad"));
  EXPECT_THAT(problems, HasSubstr("problems=1"));
  Open();
  ExpectSampled(good);
  const auto sample = ReadSample(bad.key);
  EXPECT_EQ(sample.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reason(sample.status()), "FRAME_CORRUPT");
}

TEST_F(StoreSampleTest, DumpShowsWhatIsKept) {
  OpenWithRun("r");
  ASSERT_TRUE(Append({Floats(0, "full", kElements)}).ok());
  ASSERT_TRUE(
      AppendSamples({Floats(0, "a", 3), Floats(0, "b", kElements)}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const std::string dump = Inspect("dump", InspectExit::kOk);
  EXPECT_THAT(dump, HasSubstr("kept=1 "));
  EXPECT_THAT(dump, HasSubstr("kept=sample "));
  // The second frame follows a head and three pages of payload.
  const uint64_t samples = 4096 + 4 * 4096 + 4096;
  EXPECT_THAT(
      dump, HasSubstr(fmt::format("record offset={} bytes=12 dtype", samples)));
  EXPECT_THAT(dump, HasSubstr(fmt::format("record offset={} bytes=12000 dtype",
                                          samples + 64)));
  EXPECT_THAT(dump, HasSubstr(" sample_bytes=12 sample_hash="));
  EXPECT_THAT(dump, HasSubstr(" sample_bytes=4000 sample_hash="));
}

TEST_F(StoreSampleTest, FirstRecordOfAKeyStaysAsItIs) {
  OpenWithRun("r");
  const TestTensor full = Floats(0, "full", kElements);
  const TestTensor sampled = Floats(0, "sampled", kElements);
  const TestTensor summary = Floats(0, "summary", kElements);
  ASSERT_TRUE(Append({full}).ok());
  ASSERT_TRUE(AppendSamples({sampled}).ok());
  ASSERT_TRUE(AppendSamples({summary}, chunk::kSummaryOnlyFlag).ok());
  ASSERT_TRUE(AppendSamples({full, summary}).ok());
  ASSERT_TRUE(Append({sampled}).ok());
  ExpectStored(full);
  ExpectSampled(sampled);
  ExpectNoSample(summary.key);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 3u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.payload_bytes,
            4 * kElements + kSampleBytes);
}

TEST_F(StoreSampleTest, RetentionGivesSamplesUpLikeBytes) {
  options_.segment_bytes_max = 24 << 10;
  OpenWithRun("r");
  for (int token = 0; token < 4; ++token) {
    ASSERT_TRUE(AppendSamples({Floats(token, "s", kElements)}).ok());
    ASSERT_TRUE(Append({Floats(token, "f", kElements)}).ok());
  }
  const RunCounters before = store_->runs().GetRun("r")->counters;
  EXPECT_EQ(before.kept_bytes(), 4 * (kSampleBytes + 4 * kElements));
  RetentionPolicy policy;
  policy.run.token_count = 1;
  for (int step = 0; step < 100; ++step) {
    const auto done = store_->upkeep().Retain(policy);
    ASSERT_TRUE(done.ok()) << done.status();
    if (done->is_done) break;
  }
  for (int token = 0; token < 3; ++token) {
    ExpectNoSample(Floats(token, "s", kElements).key);
    ExpectNoSample(Floats(token, "f", kElements).key);
  }
  ExpectSampled(Floats(3, "s", kElements));
  ExpectStored(Floats(3, "f", kElements));
  EXPECT_EQ(store_->runs().GetRun("r")->counters.kept_bytes(),
            kSampleBytes + 4 * kElements);
  EXPECT_EQ(store_->upkeep().Stats().expired_bytes,
            3 * (kSampleBytes + 4 * kElements));
  ASSERT_TRUE(store_->Close().ok());
  Inspect("verify", InspectExit::kOk);
}

TEST_F(StoreSampleTest, QuotaCountsWhatIsKeptOfSamples) {
  options_.segment_bytes_max = 1;
  OpenWithRun("r");
  for (int token = 0; token < 6; ++token) {
    ASSERT_TRUE(AppendSamples({Floats(token, "s", kElements)}).ok());
  }
  ASSERT_TRUE(store_->runs()
                  .SetRetention("r", {false, {.bytes_max = 2 * kSampleBytes}})
                  .ok());
  for (int step = 0; step < 100; ++step) {
    const auto done = store_->upkeep().Retain({});
    ASSERT_TRUE(done.ok()) << done.status();
    if (done->is_done) break;
  }
  for (int token = 0; token < 4; ++token) {
    ExpectNoSample(Floats(token, "s", kElements).key);
  }
  for (int token = 4; token < 6; ++token) {
    ExpectSampled(Floats(token, "s", kElements));
  }
}

}  // namespace
}  // namespace msitd::storage
