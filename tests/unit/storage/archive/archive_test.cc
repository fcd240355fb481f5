// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_source.h"
#include "storage/archive/archive_writer.h"
#include "storage/archive/file_objects.h"
#include "tests/support/fault_objects.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;
using msitd::testing::FaultObjects;
using msitd::testing::MakeAlias;
using msitd::testing::MakeStatistics;
using msitd::testing::MakeValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Selector AllKinds() {
  Selector all;
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    all.kinds.push_back(static_cast<RecordKind>(kind));
  }
  return all;
}

void ExpectEqual(const TensorInfo& a, const TensorInfo& b) {
  SCOPED_TRACE(a.key.op);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.tensor_bytes, b.tensor_bytes);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.summary, b.summary);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.has_bytes, b.has_bytes);
  EXPECT_EQ(a.has_sample, b.has_sample);
  EXPECT_EQ(a.is_claimed, b.is_claimed);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.requires_grad, b.requires_grad);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.stack, b.stack);
  EXPECT_EQ(a.alias_of, b.alias_of);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < a.parts.size(); ++i) {
    EXPECT_EQ(a.parts[i].bytes, b.parts[i].bytes);
    EXPECT_EQ(a.parts[i].hash, b.parts[i].hash);
    EXPECT_EQ(a.parts[i].has_bytes, b.parts[i].has_bytes);
    EXPECT_EQ(a.parts[i].has_sample, b.parts[i].has_sample);
  }
}

class ArchiveTest : public StoreTest {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "archive");
    auto objects = OpenFileObjects(dir_ / "archive", "");
    ASSERT_TRUE(objects.ok()) << objects.status();
    objects_ = *std::move(objects);
  }

  absl::StatusOr<ArchiveManifest> Archive(ObjectStore& objects,
                                          const std::string& run = "r") {
    MSITD_ASSIGN_OR_RETURN(const auto reader, store_->readers().OpenRun(run));
    return WriteArchive({.run = reader.get(),
                         .attachments = &store_->attachments(),
                         .store = &objects,
                         .now_ns = 1},
                        [this](const ArchiveProgress& progress) {
                          progress_ = progress;
                          return absl::OkStatus();
                        });
  }
  absl::StatusOr<ArchiveManifest> Archive() { return Archive(*objects_); }

  absl::StatusOr<std::unique_ptr<RunReader>> OpenArchive(
      const std::string& run = "r") {
    return OpenArchivedRun(objects_, run);
  }

  // A run with everything that a run can have.
  void MakeRun() {
    OpenWithRun("r");
    std::mt19937 random(7);
    for (int rank = 0; rank < 3; ++rank) {
      for (int64_t token = 0; token < 4; ++token) {
        std::vector<TestTensor> records;
        for (int op = 0; op < 20; ++op) {
          TestTensor tensor =
              MakeTensor("r", token, fmt::format("op.{}", (op * 7) % 20),
                         64 * (1 + random() % 40), 1 + random() % 5);
          tensor.key.rank = rank;
          tensor.sequence = records.size();
          records.push_back(tensor);
        }
        TestTensor alias = MakeAlias(records[3], "alias");
        alias.sequence = records.size();
        records.push_back(alias);
        TestTensor value =
            MakeValue("r", token, RecordKind::kText, "0", "a text");
        value.key.rank = rank;
        value.sequence = records.size();
        records.push_back(value);
        TestTensor statistics =
            MakeStatistics("r", token, "stat", "{\"mean\": 1}");
        statistics.key.rank = rank;
        statistics.sequence = records.size();
        records.push_back(statistics);
        ASSERT_TRUE(
            store_->log()
                .Append(TestChunks(kStream + rank, token, records).span())
                .ok());
      }
    }
    AppendLarge();
    AppendSample();
    ASSERT_TRUE(store_->runs().SealRun("r").ok());
  }

  // A tensor of two parts.
  void AppendLarge() {
    TestTensor large = MakeTensor("r", 5, "large", kPartBytes + 640, 9);
    TestTensor first = large;
    TestTensor second = large;
    second.part = 1;
    ASSERT_TRUE(Append({first}).ok());
    ASSERT_TRUE(Append({second}).ok());
  }

  void AppendSample() {
    TestTensor sampled = MakeTensor("r", 6, "sampled", 64000, 3);
    TestChunks chunks(kStream, next_chunk_++, {sampled});
    chunks.span()[0].header().flags = chunk::kSampleFlag;
    ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  }

  static std::vector<TensorInfo> ScanAll(RunReader& run, Selector selector) {
    std::vector<TensorInfo> out;
    auto scan = run.Scan(std::move(selector), "");
    EXPECT_TRUE(scan.ok()) << scan.status();
    if (!scan.ok()) return out;
    TensorInfo entry;
    while (true) {
      const auto found = (*scan)->Next(entry);
      EXPECT_TRUE(found.ok()) << found.status();
      if (!found.ok() || !*found) return out;
      out.push_back(entry);
    }
  }

  // What both say of the bytes of an entry.
  static void ExpectEqualBytes(RunReader& a, const TensorInfo& in_a,
                               RunReader& b, const TensorInfo& in_b) {
    SCOPED_TRACE(in_a.key.op);
    AlignedBuffer buffer_a;
    AlignedBuffer buffer_b;
    for (size_t i = 0; i < in_a.parts.size(); ++i) {
      const auto bytes_a = a.ReadPart(in_a.parts[i], buffer_a);
      const auto bytes_b = b.ReadPart(in_b.parts[i], buffer_b);
      ASSERT_EQ(bytes_a.status().code(), bytes_b.status().code())
          << bytes_a.status() << bytes_b.status();
      ASSERT_EQ(Reason(bytes_a.status()), Reason(bytes_b.status()));
      if (bytes_a.ok()) {
        ASSERT_TRUE(std::equal(bytes_a->begin(), bytes_a->end(),
                               bytes_b->begin(), bytes_b->end()));
      }
      const auto sample_a = a.ReadSample(in_a, i, buffer_a);
      const auto sample_b = b.ReadSample(in_b, i, buffer_b);
      ASSERT_EQ(sample_a.status().code(), sample_b.status().code())
          << sample_a.status() << sample_b.status();
      if (sample_a.ok()) {
        ASSERT_TRUE(std::equal(sample_a->begin(), sample_a->end(),
                               sample_b->begin(), sample_b->end()));
      }
    }
    std::unique_ptr<PartBatch> batch_b = b.ReadParts(in_b.parts, buffer_b);
    for (size_t i = 0; i < batch_b->size(); ++i) {
      const auto bytes_a = a.ReadPart(in_a.parts[i], buffer_a);
      const auto bytes_b = batch_b->Read(i);
      ASSERT_EQ(Reason(bytes_a.status()), Reason(bytes_b.status()));
      if (bytes_a.ok()) {
        ASSERT_TRUE(std::equal(bytes_a->begin(), bytes_a->end(),
                               bytes_b->begin(), bytes_b->end()));
      }
    }
  }

  void ExpectSameRun(const std::string& run = "r") {
    const auto local = store_->readers().OpenRun(run);
    ASSERT_TRUE(local.ok()) << local.status();
    const auto archived = OpenArchive(run);
    ASSERT_TRUE(archived.ok()) << archived.status();
    const RunInfo a = *(*local)->GetInfo();
    const RunInfo b = *(*archived)->GetInfo();
    EXPECT_EQ(a.spec.name, b.spec.name);
    EXPECT_EQ(a.spec.labels, b.spec.labels);
    EXPECT_EQ(a.create_time_ns, b.create_time_ns);
    EXPECT_EQ(a.seal_time_ns, b.seal_time_ns);
    EXPECT_TRUE(b.sealed);
    EXPECT_EQ(a.counters.tensor_count, b.counters.tensor_count);
    EXPECT_EQ(a.counters.token_end, b.counters.token_end);
    EXPECT_EQ(*(*local)->ListRanks(), *(*archived)->ListRanks());
    EXPECT_EQ(*(*local)->ListCoverage(), *(*archived)->ListCoverage());
    EXPECT_EQ(*(*local)->ListPlacements(), *(*archived)->ListPlacements());
    ExpectSameScan(**local, **archived, AllKinds());
  }

  static void ExpectSameScan(RunReader& local, RunReader& archived,
                             const Selector& selector) {
    EXPECT_EQ(*local.ListCoordinates(selector),
              *archived.ListCoordinates(selector));
    const std::vector<TensorInfo> a = ScanAll(local, selector);
    const std::vector<TensorInfo> b = ScanAll(archived, selector);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ExpectEqual(a[i], b[i]);
      ExpectEqualBytes(local, a[i], archived, b[i]);
      // Nothing takes no room, so what follows it lies at its place.
      if (i > 0 && a[i].tensor_bytes > 0 && a[i - 1].tensor_bytes > 0) {
        EXPECT_EQ(a[i].parts[0].place <=> a[i - 1].parts[0].place,
                  b[i].parts[0].place <=> b[i - 1].parts[0].place);
      }
    }
  }

  // The files of the archived run.
  std::vector<fs::path> Files() {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(dir_ / "archive/r")) {
      out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Reads everything; the first error.
  absl::Status ReadAll() {
    MSITD_ASSIGN_OR_RETURN(const auto run, OpenArchive());
    MSITD_ASSIGN_OR_RETURN(const auto scan, run->Scan(AllKinds(), ""));
    AlignedBuffer buffer;
    TensorInfo entry;
    while (true) {
      MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(entry));
      if (!found) return absl::OkStatus();
      for (size_t i = 0; i < entry.parts.size(); ++i) {
        if (entry.has_bytes) {
          MSITD_RETURN_IF_ERROR(run->ReadPart(entry.parts[i], buffer).status());
        } else if (entry.has_sample) {
          MSITD_RETURN_IF_ERROR(run->ReadSample(entry, i, buffer).status());
        }
      }
    }
  }

  std::shared_ptr<ObjectStore> objects_;
  ArchiveProgress progress_;
};

TEST_F(ArchiveTest, ReadsAsTheStoreDoes) {
  MakeRun();
  const auto manifest = Archive();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(progress_.entry_count, manifest->entry_count);
  EXPECT_EQ(progress_.verified_bytes, manifest->ObjectBytes());
  EXPECT_EQ(progress_.sent_bytes, manifest->ObjectBytes());
  ExpectSameRun();
  const auto local = store_->readers().OpenRun("r");
  const auto archived = OpenArchive();
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    Selector selector;
    if (random() % 2 == 0) selector = AllKinds();
    if (random() % 2 == 0) {
      selector.ranks = {static_cast<int32_t>(random() % 4)};
    }
    if (random() % 2 == 0) {
      const int64_t first = random() % 6;
      selector.tokens = {{first, first + static_cast<int64_t>(random() % 3)}};
    }
    if (random() % 2 == 0) selector.op_patterns = {"op.1*", "alias"};
    if (random() % 4 == 0) selector.ios = {Io::kInput};
    if (random() % 4 == 0) selector.devices = {"cpu:9"};
    ExpectSameScan(**local, **archived, selector);
  }
}

TEST_F(ArchiveTest, FindsEachTensor) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const auto local = store_->readers().OpenRun("r");
  const auto archived = OpenArchive();
  ASSERT_TRUE(archived.ok());
  for (const TensorInfo& entry : ScanAll(**local, AllKinds())) {
    const auto found = (*archived)->GetTensor(entry.key);
    ASSERT_TRUE(found.ok()) << found.status();
    ExpectEqual(entry, *found);
    TensorKey other = entry.key;
    other.op += "x";
    EXPECT_EQ(Reason((*archived)->GetTensor(other).status()),
              "TENSOR_NOT_FOUND");
    other = entry.key;
    other.token = 999;
    EXPECT_EQ(Reason((*archived)->GetTensor(other).status()),
              "TENSOR_NOT_FOUND");
  }
}

TEST_F(ArchiveTest, AScanGoesOnFromAnyPosition) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const auto archived = OpenArchive();
  Selector selector;
  selector.op_patterns = {"op.*"};
  selector.tokens = {{1, 2}};
  const std::vector<TensorInfo> all = ScanAll(**archived, selector);
  std::vector<std::string> ops;
  std::string position;
  while (true) {
    auto scan = (*archived)->Scan(selector, position);
    ASSERT_TRUE(scan.ok()) << scan.status();
    TensorInfo entry;
    const auto found = (*scan)->Next(entry);
    ASSERT_TRUE(found.ok());
    if (!*found) break;
    ops.push_back(entry.key.op);
    position = (*scan)->position();
  }
  ASSERT_EQ(ops.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(ops[i], all[i].key.op);
  for (const std::string bad : {"x", "\x01", "\x01zzzzzzzzz"}) {
    EXPECT_EQ(Reason((*archived)->Scan(selector, bad).status()),
              "PAGE_TOKEN_INVALID");
  }
}

TEST_F(ArchiveTest, OpensByTwoRequestsAndATensorTakesTwo) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  auto counted = std::make_shared<FaultObjects>(*objects_);
  const auto run = OpenArchivedRun(counted, "r");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(counted->reads, 2);
  const auto tensor = (*run)->GetTensor(MakeTensor("r", 1, "op.7", 64).key);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  AlignedBuffer buffer;
  ASSERT_TRUE((*run)->ReadPart(tensor->parts[0], buffer).ok());
  EXPECT_LE(counted->reads, 4);
}

TEST_F(ArchiveTest, BytesThatWereGivenUpStayAway) {
  MakeRun();
  RetentionPolicy policy;
  policy.run.token_count = 3;
  ASSERT_TRUE(store_->upkeep().Retain(policy).ok());
  ASSERT_TRUE(Archive().ok());
  ExpectSameRun();
}

TEST_F(ArchiveTest, AnActiveRunIsRefused) {
  OpenWithRun("r");
  EXPECT_EQ(Archive().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ArchiveTest, AnEmptyRunIsArchived) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  ASSERT_TRUE(Archive().ok());
  ExpectSameRun();
}

TEST_F(ArchiveTest, EqualBytesAreSentOnce) {
  OpenWithRun("r");
  for (int64_t token = 0; token < 50; ++token) {
    ASSERT_TRUE(Append({MakeTensor("r", token, "w", 100'000)}).ok());
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const auto manifest = Archive();
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->part_count, 1U);
  EXPECT_LT(manifest->ObjectBytes(), 150'000U);
  ExpectSameRun();
}

TEST_F(ArchiveTest, GoesOnAfterAFullBucket) {
  OpenWithRun("r");
  // Three packs of different bytes.
  for (int64_t token = 0; token < 24; ++token) {
    ASSERT_TRUE(Append({MakeTensor("r", token, "op", kPartBytes,
                                   static_cast<uint32_t>(token) + 1)})
                    .ok());
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  FaultObjects full(*objects_);
  full.puts_left = 2;
  const absl::Status status = Archive(full).status();
  EXPECT_EQ(Reason(status), "DISK_FULL") << status;
  EXPECT_EQ(Reason(OpenArchive().status()), "RUN_NOT_FOUND");
  full.puts_left = -1;
  full.put_bytes = 0;
  const auto manifest = Archive(full);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_LT(full.put_bytes, manifest->ObjectBytes() / 2);
  ExpectSameRun();
  // Once more sends the manifest alone, in vain.
  full.put_bytes = 0;
  ASSERT_TRUE(Archive(full).ok());
  EXPECT_LT(full.put_bytes, 4096U);
}

TEST_F(ArchiveTest, AWriteThatWasCutIsNoticed) {
  MakeRun();
  FaultObjects store(*objects_);
  store.truncates = true;
  EXPECT_TRUE(absl::IsDataLoss(Archive(store).status()));
  EXPECT_EQ(Reason(OpenArchive().status()), "RUN_NOT_FOUND");
  store.truncates = false;
  ASSERT_TRUE(Archive(store).ok());
  ExpectSameRun();
}

TEST_F(ArchiveTest, ManyArchiveAtOnce) {
  MakeRun();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto run = store_->readers().OpenRun("r");
      const auto manifest =
          WriteArchive({.run = run->get(),
                        .attachments = nullptr,
                        .store = objects_.get(),
                        .now_ns = 1},
                       [](const ArchiveProgress&) { return absl::OkStatus(); });
      EXPECT_TRUE(manifest.ok()) << manifest.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectSameRun();
}

TEST_F(ArchiveTest, AnotherRunOfThatNameIsLeftAlone) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const std::vector<fs::path> before = Files();
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  ASSERT_TRUE(
      store_->log()
          .Append(TestChunks(5, 0, {MakeTensor("r", 0, "new", 640)}).span())
          .ok());
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const absl::Status status = Archive().status();
  EXPECT_EQ(Reason(status), "RUN_EXISTS");
  EXPECT_THAT(std::string(Message(status)), HasSubstr("another run"));
  EXPECT_EQ(Files(), before);
  EXPECT_TRUE(ReadAll().ok());
}

TEST_F(ArchiveTest, AttachmentsGoAlong) {
  MakeRun();
  auto writer =
      store_->attachments().Begin({"r", "graph", "text/plain", false});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("hello").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto manifest = Archive();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->attachments.size(), 1U);
  EXPECT_EQ(manifest->attachments[0].info.name, "graph");
  EXPECT_EQ(*objects_->Get("r/" + manifest->attachments[0].object.name, 5),
            "hello");
}

// Each damage to each object is an error, and never other bytes.
TEST_F(ArchiveTest, DamageIsNoticed) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  ASSERT_TRUE(ReadAll().ok());
  for (const fs::path& file : Files()) {
    SCOPED_TRACE(file.filename());
    std::ifstream in(file, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(in)), {});
    const auto write = [&](const std::string& bytes) {
      std::ofstream(file, std::ios::binary) << bytes;
    };
    const bool is_manifest = file.filename() == kManifestName;
    for (const size_t at : {size_t{0}, good.size() / 2, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write(bad);
      EXPECT_TRUE(absl::IsDataLoss(ReadAll())) << at << ReadAll();
    }
    write(good.substr(0, good.size() - 1));
    EXPECT_TRUE(absl::IsDataLoss(ReadAll())) << ReadAll();
    write("");
    EXPECT_TRUE(absl::IsDataLoss(ReadAll())) << ReadAll();
    fs::remove(file);
    const absl::Status missing = ReadAll();
    if (is_manifest) {
      EXPECT_EQ(Reason(missing), "RUN_NOT_FOUND");
    } else {
      EXPECT_TRUE(absl::IsDataLoss(missing)) << missing;
      EXPECT_THAT(std::string(Message(missing)),
                  HasSubstr(file.filename().string()));
    }
    write(good);
  }
  EXPECT_TRUE(ReadAll().ok());
}

TEST_F(ArchiveTest, AManifestOfTheFutureIsNamed) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  std::string manifest = *objects_->Get("r/manifest", kManifestBytesMax);
  manifest[std::string_view("msitd archive\n").size()] = 2;
  ASSERT_TRUE(
      objects_->Put("r/manifest", std::as_bytes(std::span(manifest))).ok());
  const absl::Status status = OpenArchive().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("later msitd"));
}

TEST_F(ArchiveTest, AManifestInTheWrongFolderIsRefused) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  fs::copy(dir_ / "archive/r", dir_ / "archive/s");
  EXPECT_TRUE(absl::IsDataLoss(OpenArchive("s").status()));
  EXPECT_THAT(*ListArchivedRuns(*objects_), ElementsAre("r", "s"));
}

TEST_F(ArchiveTest, OnlyAllowedPlacesAreUsed) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  ArchivePlaces::Options options;
  options.urls = {"file://" + (dir_ / "archive")};
  auto places = ArchivePlaces::Create(options);
  ASSERT_TRUE(places.ok()) << places.status();
  ArchiveSource source(**places);
  EXPECT_TRUE(source.Open({"file://" + (dir_ / "archive"), "r"}, {}).ok());
  EXPECT_EQ(
      Reason(source.Open({"file://" + (dir_ / "archive"), "x"}, {}).status()),
      "RUN_NOT_FOUND");
  const absl::Status status =
      source.Open({"file://" + (dir_ / ""), "r"}, {}).status();
  EXPECT_FALSE(status.ok());
  const absl::Status other =
      source.Open({"file:///srv/other", "r"}, {}).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Message(other)), HasSubstr("`archives`"));
  EXPECT_EQ(source.Open({"s3://bucket/x", "r"}, {}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace msitd::storage
