// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_pruner.h"
#include "tests/unit/storage/archive/archive_fixture.h"

// Tests of the data that an archive keeps, and of the data that it records as
// missing.
namespace msitd::storage {
namespace {

using ::testing::HasSubstr;

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

// The same, on a server that overwrites objects although it was asked not to.
TEST_F(ArchiveTest, AnotherRunIsLeftAloneByAServerThatReplacesManifests) {
  MakeRun();
  FaultObjects store(*objects_);
  store.ignores_absence = true;
  ASSERT_TRUE(Archive(store).ok());
  EXPECT_FALSE(*HasExclusiveWrites(store));
  EXPECT_TRUE(*HasExclusiveWrites(*objects_));
  const std::vector<fs::path> before = Files();
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  EXPECT_EQ(Reason(Archive(store).status()), "RUN_EXISTS");
  EXPECT_EQ(Files(), before);
  EXPECT_TRUE(ReadAll().ok());
}

TEST_F(ArchiveTest, ARunThatWasGivenUpStaysInItsArchive) {
  options_.segment_bytes_max = 24 << 10;
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const std::vector<fs::path> before = Files();
  RetentionPolicy policy;
  policy.run.token_count = 1;
  while (!store_->upkeep().Retain(policy)->is_done) {
  }
  ASSERT_GT(store_->runs().GetRun("r")->counters.expired_bytes, 0U);
  for (const bool ignores_absence : {false, true}) {
    FaultObjects store(*objects_);
    store.ignores_absence = ignores_absence;
    const auto again = Archive(store);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(store.put_bytes, 0U);
    EXPECT_EQ(Files(), before);
    EXPECT_TRUE(ReadAll().ok()) << ReadAll();
  }
  // A new attachment is added.
  auto writer =
      store_->attachments().Begin({"r", "graph", "text/plain", false});
  ASSERT_TRUE((*writer)->Append("hello").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto with = Archive();
  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_EQ(with->attachments.size(), 1U);
  EXPECT_TRUE(ReadAll().ok()) << ReadAll();
  // A deleted attachment stays in the archive.
  ASSERT_TRUE(store_->attachments().DeleteAttachment("r", "graph").ok());
  EXPECT_EQ(Archive()->attachments.size(), 1U);
}

TEST_F(ArchiveTest, WhatTheArchiveHasLostIsWrittenAgain) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  for (const fs::path& file : Files()) {
    if (file.filename() == kManifestName) continue;
    SCOPED_TRACE(file.filename());
    fs::remove(file);
    ASSERT_TRUE(Archive().ok()) << Archive().status();
    EXPECT_TRUE(ReadAll().ok()) << ReadAll();
  }
  ExpectSameRun();
}

// If one object is damaged, nothing is lost that only the archive has.
TEST_F(ArchiveTest, ADamagedArchiveOfARunThatWasGivenUpKeepsItsBytes) {
  options_.segment_bytes_max = 24 << 10;
  MakeRun();
  const auto first = Archive();
  ASSERT_TRUE(first.ok()) << first.status();
  const size_t count = *CountWithBytes();
  GiveUpOldTokens();
  for (const fs::path& file : Files()) {
    if (file.filename() == kManifestName) continue;
    for (const bool is_removed : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", file.filename().string(),
                               is_removed ? "removed" : "altered"));
      const std::string good = BytesOf(file);
      if (is_removed) {
        fs::remove(file);
      } else {
        FlipMiddle(file);
      }
      const std::vector<fs::path> before = Files();
      const absl::Status status = Archive().status();
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(status)) << status;
        EXPECT_EQ(Files(), before);
      }
      std::ofstream(file, std::ios::binary) << good;
      const auto now = ReadManifest(*objects_, "r");
      ASSERT_TRUE(now.ok()) << now.status();
      EXPECT_EQ(now->PackBytes(), first->PackBytes());
      EXPECT_EQ(now->part_count, first->part_count);
      EXPECT_EQ(now->unreadable.tensor_count, 0U);
      EXPECT_EQ(*CountWithBytes(), count);
    }
  }
}

// The new manifest would have the same number of unreadable tensors as before,
// but other tensors.
TEST_F(ArchiveTest, BytesThatComeBackDoNotReplaceThoseOfTheArchive) {
  options_.segment_bytes_max = 8 << 10;
  OpenWithRun("r");
  for (int64_t token = 0; token < 6; ++token) {
    ASSERT_TRUE(Append({MakeTensor("r", token, "op", 4096,
                                   static_cast<uint32_t>(token) + 1)})
                    .ok());
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const auto entries = ScanAll(**store_->readers().OpenRun("r"), AllKinds());
  const auto places = FlipBytesOf({entries[3], entries[4], entries[5]});
  const auto first = Archive();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->unreadable.tensor_count, 3U);
  FlipBack(places);
  GiveUpOldTokens(3);
  const fs::path index = FileOf("index-");
  const std::string good = BytesOf(index);
  FlipMiddle(index);
  const auto damaged = Archive();
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  std::ofstream(index, std::ios::binary) << good;
  const auto whole = Archive();
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->unreadable.empty());
  EXPECT_EQ(*CountWithBytes(), 6U);
}

// No bytes have expired since, so the store still has everything.
TEST_F(ArchiveTest, DamageToEntriesIsMendedAlsoForTensorsWithoutBytes) {
  options_.segment_bytes_max = 24 << 10;
  MakeRun();
  GiveUpOldTokens();
  ASSERT_TRUE(Archive().ok());
  const size_t count = *CountWithBytes();
  FlipMiddle(FileOf("index-"));
  const auto again = Archive();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->unreadable.empty());
  EXPECT_EQ(*CountWithBytes(), count);
}

TEST_F(ArchiveTest, ADamagedDirectoryIsMadeAgainFromTheEntries) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const fs::path directory = FileOf("directory-");
  const std::string good = BytesOf(directory);
  const auto check = [&] {
    ASSERT_TRUE(OpenArchive().ok()) << OpenArchive().status();
    ExpectSameRun();
    EXPECT_TRUE(ReadAll().ok()) << ReadAll();
  };
  FlipMiddle(directory);
  check();
  fs::resize_file(directory, 100);
  check();
  fs::remove(directory);
  check();
  // The index is damaged as well.
  const fs::path index = FileOf("index-");
  FlipMiddle(index);
  const auto opened = OpenArchive();
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
  FlipMiddle(index);
  // Archiving writes the directory again.
  ASSERT_TRUE(Archive().ok());
  EXPECT_EQ(BytesOf(directory), good);
}

// A prune by another daemon removes objects as leftovers if no manifest names
// them yet.
TEST_F(ArchiveTest, ObjectsThatArePrunedOnTheWayAreWrittenAgain) {
  MakeRun();
  // The directory object is checked when it is written, before the manifest is
  // written, and after that.
  for (const int moment : {2, 3}) {
    SCOPED_TRACE(moment);
    fs::remove_all(dir_ / "archive/r");
    FaultObjects store(*objects_);
    int stats = 0;
    store.before_stat = [&](std::string_view key) {
      if (key.find("directory-") == key.npos || ++stats != moment) return;
      fs::remove(FileOf("pack-"));
    };
    const auto archived = Archive(store);
    ASSERT_TRUE(archived.ok()) << archived.status();
    EXPECT_GT(stats, moment);
    EXPECT_TRUE(ReadAll().ok()) << ReadAll();
    ExpectSameRun();
  }
}

TEST_F(ArchiveTest, AManifestThatComesWhileOthersPruneKeepsItsObjects) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const std::string manifest = BytesOf(dir_ / "archive/r/manifest");
  fs::remove(dir_ / "archive/r/manifest");
  const std::vector<fs::path> before = Files();
  FaultObjects store(*objects_);
  store.before_stat = [&](std::string_view key) {
    if (key.find("pack-") == key.npos) return;
    std::ofstream(dir_ / "archive/r/manifest", std::ios::binary) << manifest;
  };
  const auto pruned = PruneArchive(
      {.store = &store, .run = "", .modified_before_s = ::time(nullptr) + 1},
      [] { return absl::OkStatus(); });
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->object_count, 0U);
  EXPECT_EQ(Files().size(), before.size() + 1);
  EXPECT_TRUE(ReadAll().ok()) << ReadAll();
}

// A prune may remove objects that are old and named by no manifest, even if all
// objects of a run exist. Archiving writes one of them again, so the folder
// counts as new.
TEST_F(ArchiveTest, AFolderOfOldObjectsIsMadeYoung) {
  MakeRun();
  FaultObjects full(*objects_);
  full.puts_left = 3;
  ASSERT_FALSE(Archive(full).ok());
  const std::vector<fs::path> leftovers = Files();
  ASSERT_EQ(leftovers.size(), 3U);
  const auto now = fs::file_time_type::clock::now();
  const auto archive = [&] {
    const auto run = *store_->readers().OpenRun("r");
    return WriteArchive(
        {.run = run.get(),
         .attachments = &store_->attachments(),
         .store = objects_.get(),
         .now_ns = int64_t{1'000'000'000} * ::time(nullptr)},
        [](const ArchiveProgress&) { return absl::OkStatus(); });
  };
  for (const fs::path& file : leftovers) {
    fs::last_write_time(file, now - std::chrono::hours(48));
  }
  ASSERT_TRUE(archive().ok());
  EXPECT_TRUE(std::any_of(
      leftovers.begin(), leftovers.end(), [&](const fs::path& file) {
        return fs::last_write_time(file) > now - std::chrono::hours(1);
      }));
  // Objects that a manifest names are kept at any age.
  for (const fs::path& file : Files()) {
    fs::last_write_time(file, now - std::chrono::hours(48));
  }
  ASSERT_TRUE(archive().ok());
  for (const fs::path& file : Files()) {
    EXPECT_LT(fs::last_write_time(file), now - std::chrono::hours(47)) << file;
  }
  EXPECT_TRUE(ReadAll().ok()) << ReadAll();
}

TEST_F(ArchiveTest, WhatCannotBeReadIsRecordedAndTheRestIsArchived) {
  options_.segment_bytes_max = 8 << 10;
  OpenWithRun("r");
  for (int64_t token = 0; token < 6; ++token) {
    ASSERT_TRUE(Append({MakeTensor("r", token, "op", 4096,
                                   static_cast<uint32_t>(token) + 1)})
                    .ok());
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const auto entries = ScanAll(**store_->readers().OpenRun("r"), AllKinds());
  ASSERT_EQ(entries.size(), 6U);
  const std::vector<std::pair<fs::path, uint64_t>> places =
      FlipBytesOf({entries[1], entries[4]});
  const auto manifest = Archive();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->unreadable.tensor_count, 2U)
      << ::testing::PrintToString(manifest->unreadable.texts);
  ASSERT_EQ(manifest->unreadable.texts.size(), 2U);
  EXPECT_THAT(manifest->unreadable.texts[0], HasSubstr("op"));
  const auto archived = *OpenArchive();
  AlignedBuffer buffer;
  const auto in_archive = ScanAll(*archived, AllKinds());
  ASSERT_EQ(in_archive.size(), 6U);
  for (size_t i = 0; i < in_archive.size(); ++i) {
    const auto bytes = archived->ReadPart(in_archive[i].parts[0], buffer);
    EXPECT_EQ(bytes.ok(), i != 1 && i != 4) << i;
    EXPECT_EQ(Reason(bytes.status()), bytes.ok() ? "" : "FRAME_CORRUPT");
    EXPECT_TRUE(in_archive[i].has_bytes);
    const auto batch = archived->ReadParts(in_archive[i].parts, buffer);
    EXPECT_EQ(batch->Read(0).status().code(), bytes.status().code());
    EXPECT_EQ(archived->ReadSample(in_archive[i], 0, buffer).status().code(),
              bytes.status().code());
  }
  // Archiving again changes nothing. After the bytes are readable again, they
  // are added, even if other bytes have expired.
  EXPECT_EQ(Archive()->unreadable.tensor_count, 2U);
  FlipBack(places);
  RetentionPolicy policy;
  policy.run.token_count = 3;
  while (!store_->upkeep().Retain(policy)->is_done) {
  }
  const auto whole = Archive();
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->unreadable.tensor_count, 1U);
  const auto after = *OpenArchive();
  for (size_t i = 0; i < in_archive.size(); ++i) {
    const auto entry = *after->GetTensor(in_archive[i].key);
    EXPECT_EQ(after->ReadPart(entry.parts[0], buffer).ok(), i != 1) << i;
  }
}

TEST_F(ArchiveTest, APermanentErrorLeavesNoObjects) {
  MakeRun();
  int calls = 0;
  const auto run = *store_->readers().OpenRun("r");
  const auto manifest = WriteArchive(
      {.run = run.get(),
       .attachments = nullptr,
       .store = objects_.get(),
       .now_ns = 1},
      [&](const ArchiveProgress& progress) {
        ++calls;
        return progress.sent_bytes > 0 ? absl::DataLossError("broken")
                                       : absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsDataLoss(manifest.status())) << manifest.status();
  EXPECT_GT(calls, 1);
  EXPECT_THAT(objects_->List("r")->objects, ::testing::IsEmpty());
}

TEST_F(ArchiveTest, PruningRemovesWhatNothingNames) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const std::string hash(32, 'a');
  const auto put = [&](const std::string& key) {
    const std::string_view text = "rest";
    ASSERT_TRUE(objects_->Put(key, std::as_bytes(std::span(text))).ok());
  };
  for (const char* const kind : {"pack-000009-", "index-000009-", "directory-",
                                 "attachment-", "rows-000000-"}) {
    put("r/" + (kind + hash));
    put("gone/" + (kind + hash));
  }
  put("r/tmp-pack-12345678");
  put("r/notes.txt");
  put("r/pack-of-somebody");
  put("probe-0123456789abcdef");
  const std::vector<fs::path> before = Files();
  const auto prune = [&](const std::string& run, int64_t before_s) {
    return PruneArchive(
        {.store = objects_.get(), .run = run, .modified_before_s = before_s},
        [] { return absl::OkStatus(); });
  };
  const int64_t now_s = ::time(nullptr);
  // New objects may belong to a run that is being written.
  EXPECT_EQ(prune("", now_s - 3600)->object_count, 0U);
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(Reason(prune("none", now_s).status()), "RUN_NOT_FOUND");
  const auto one = prune("r", now_s + 1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->object_count, 6U);
  EXPECT_EQ(one->bytes, 24U);
  EXPECT_EQ(Files().size(), before.size() - 6);
  EXPECT_TRUE(fs::exists(dir_ / "archive/r/notes.txt"));
  EXPECT_TRUE(fs::exists(dir_ / "archive/r/pack-of-somebody"));
  EXPECT_EQ(prune("", now_s + 1)->object_count, 6U);
  EXPECT_THAT(objects_->List("gone")->objects, ::testing::IsEmpty());
  EXPECT_TRUE(ReadAll().ok());
  // If a manifest is damaged, the objects that it names are unknown.
  put("r/manifest");
  put("r/pack-000009-" + hash);
  const auto left = prune("", now_s + 1);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->object_count, 0U);
  EXPECT_EQ(left->problems.size(), 1U);
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

// The limits of a request to create a run also apply to an archive.
TEST_F(ArchiveTest, AManifestIsHeldToTheLimitsOfRuns) {
  MakeRun();
  ASSERT_TRUE(Archive().ok());
  const ArchiveManifest good = *ReadManifest(*objects_, "r");
  const auto decodes = [&](auto change) {
    ArchiveManifest manifest = good;
    change(manifest);
    const auto decoded = DecodeManifest(EncodeManifest(manifest));
    EXPECT_TRUE(decoded.ok() || absl::IsDataLoss(decoded.status()));
    return decoded.ok();
  };
  const auto set_labels = [](size_t count, size_t bytes) {
    return [=](ArchiveManifest& manifest) {
      manifest.run.spec.labels.clear();
      for (size_t i = 0; i < count; ++i) {
        manifest.run.spec.labels[fmt::format("{:04}", i)] =
            std::string(bytes - 4, 'x');
      }
    };
  };
  EXPECT_TRUE(decodes(set_labels(64, 1024)));
  EXPECT_FALSE(decodes(set_labels(65, 10)));
  EXPECT_FALSE(decodes(set_labels(1, 1025)));
  EXPECT_FALSE(decodes([](auto& m) { m.run.spec.labels[""] = "x"; }));
  EXPECT_FALSE(decodes([](auto& m) { m.run.spec.job.assign(100'000, 'j'); }));
  EXPECT_FALSE(decodes([](auto& m) { m.run.spec.owner.assign(2000, 'o'); }));
  EXPECT_FALSE(
      decodes([](auto& m) { m.run.capture_policy.assign(2 << 20, 'p'); }));
  EXPECT_FALSE(decodes([](auto& m) { m.run.create_time_ns = -1; }));
  EXPECT_FALSE(decodes([](auto& m) { m.run.counters.tensor_count = ~0ULL; }));
  EXPECT_FALSE(decodes([](auto& m) {
    AttachmentInfo info;
    info.name = std::string(200, 'n');
    m.attachments.push_back({info, m.directory});
  }));
  EXPECT_TRUE(decodes([](auto& m) { m.unreadable.tensor_count = 3; }));
}

}  // namespace
}  // namespace msitd::storage
