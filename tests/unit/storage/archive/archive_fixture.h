// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "storage/archive/archive_pruner.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_source.h"
#include "storage/archive/archive_writer.h"
#include "storage/archive/file_objects.h"
#include "tests/support/fault_objects.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {

namespace fs = std::filesystem;
using msitd::testing::FaultObjects;
using msitd::testing::MakeAlias;
using msitd::testing::MakeStatistics;
using msitd::testing::MakeValue;

inline Selector AllKinds() {
  Selector all;
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    all.kinds.push_back(static_cast<RecordKind>(kind));
  }
  return all;
}

inline void ExpectEqual(const TensorInfo& a, const TensorInfo& b) {
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

  // Creates a run that contains every kind of record and setting.
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

  // Appends a tensor of two parts.
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

  // Expects that both readers return the same for the bytes of an entry.
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
      // An empty tensor takes no space, so the next tensor may have the same
      // place.
      if (i > 0 && a[i].tensor_bytes > 0 && a[i - 1].tensor_bytes > 0) {
        EXPECT_EQ(a[i].parts[0].place <=> a[i - 1].parts[0].place,
                  b[i].parts[0].place <=> b[i - 1].parts[0].place);
      }
    }
  }

  // Returns the files of the archived run.
  std::vector<fs::path> Files() {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(dir_ / "archive/r")) {
      out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Changes a byte of each entry in the segments of the store. Returns the
  // changed places.
  std::vector<std::pair<fs::path, uint64_t>> FlipBytesOf(
      const std::vector<TensorInfo>& entries) {
    std::vector<std::pair<fs::path, uint64_t>> places;
    for (const TensorInfo& entry : entries) {
      AlignedBuffer buffer;
      const auto run = *store_->readers().OpenRun("r");
      const auto bytes = *run->ReadPart(entry.parts[0], buffer);
      const std::string wanted(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size());
      for (const auto& file :
           fs::recursive_directory_iterator(dir_ / "store")) {
        if (!file.is_regular_file()) continue;
        std::ifstream in(file.path(), std::ios::binary);
        const std::string all((std::istreambuf_iterator<char>(in)), {});
        const size_t at = all.find(wanted);
        if (at != std::string::npos) places.emplace_back(file.path(), at + 7);
      }
    }
    EXPECT_EQ(places.size(), entries.size());
    FlipBack(places);
    return places;
  }

  static void FlipBack(
      const std::vector<std::pair<fs::path, uint64_t>>& places) {
    for (const auto& [path, at] : places) {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1));
    }
  }

  // Reads everything and returns the first error.
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

  // Returns how many entries of the archive have all of their bytes, or a
  // sample. Returns the first error that is not caused by missing bytes.
  absl::StatusOr<size_t> CountWithBytes() {
    MSITD_ASSIGN_OR_RETURN(const auto run, OpenArchive());
    MSITD_ASSIGN_OR_RETURN(const auto scan, run->Scan(AllKinds(), ""));
    AlignedBuffer buffer;
    TensorInfo entry;
    size_t count = 0;
    while (true) {
      MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(entry));
      if (!found) return count;
      bool is_whole = entry.has_bytes || entry.has_sample;
      for (size_t i = 0; is_whole && i < entry.parts.size(); ++i) {
        is_whole = entry.has_bytes ? run->ReadPart(entry.parts[i], buffer).ok()
                                   : run->ReadSample(entry, i, buffer).ok();
      }
      count += is_whole;
    }
  }

  // Expires everything except the last tokens of each run.
  void GiveUpOldTokens(int64_t token_count = 1) {
    RetentionPolicy policy;
    policy.run.token_count = token_count;
    while (!store_->upkeep().Retain(policy)->is_done) {
    }
    ASSERT_GT(store_->runs().GetRun("r")->counters.expired_bytes, 0U);
  }

  // Returns the file of the archived run whose name begins with `kind`.
  fs::path FileOf(std::string_view kind) {
    for (const fs::path& file : Files()) {
      if (file.filename().string().starts_with(kind)) return file;
    }
    ADD_FAILURE() << "no " << kind;
    return {};
  }

  static std::string BytesOf(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Flips a bit in the middle of a file.
  static void FlipMiddle(const fs::path& file) {
    std::string bytes = BytesOf(file);
    char& byte = bytes[bytes.size() / 2];
    byte = static_cast<char>(byte ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  std::shared_ptr<ObjectStore> objects_;
  ArchiveProgress progress_;
};

}  // namespace msitd::storage
