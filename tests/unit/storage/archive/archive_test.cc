// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/storage/archive/archive_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  // Writes three packs of different bytes.
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
  // The next attempt only sends the manifest, which already exists.
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

// Any damage to any object causes an error, and never wrong bytes. Only the
// directory can be rebuilt.
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
    const bool is_directory =
        file.filename().string().starts_with("directory-");
    const auto expect_noticed = [&](const absl::Status& status) {
      EXPECT_EQ(status.code(), is_directory ? absl::StatusCode::kOk
                                            : absl::StatusCode::kDataLoss)
          << status;
    };
    for (const size_t at : {size_t{0}, good.size() / 2, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write(bad);
      SCOPED_TRACE(at);
      expect_noticed(ReadAll());
    }
    write(good.substr(0, good.size() - 1));
    expect_noticed(ReadAll());
    write("");
    expect_noticed(ReadAll());
    fs::remove(file);
    const absl::Status missing = ReadAll();
    if (is_manifest) {
      EXPECT_EQ(Reason(missing), "RUN_NOT_FOUND");
    } else if (is_directory) {
      EXPECT_TRUE(missing.ok()) << missing;
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
  manifest[std::string_view("msitd archive\n").size()] = 3;
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
