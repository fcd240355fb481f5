// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_job.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/foreign/formats/tensor_file.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

namespace msitd::fill {
namespace {

using libmsit::FakeDaemon;
using libmsit::kLong;

class FakeTree final : public trees::Tree {
 public:
  trees::TreeKind kind() const override { return trees::TreeKind::kGe; }
  std::vector<int32_t> ranks() const override { return ranks_; }
  int32_t world_size() const override { return 0; }
  const std::vector<trees::TreeAttachment>& attachments() const override {
    return attachments_;
  }
  const trees::TreeEntry* Next() override {
    return next_ == entries_.size() ? nullptr : &entries_[next_++];
  }
  std::vector<trees::TreeProblem> TakeProblems() override {
    return std::exchange(problems_, {});
  }

  std::vector<int32_t> ranks_ = {0};
  std::vector<trees::TreeEntry> entries_;
  std::vector<trees::TreeAttachment> attachments_;
  std::vector<trees::TreeProblem> problems_;

 private:
  size_t next_ = 0;
};

class FakeTarget final : public ImportTarget {
 public:
  absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) override {
    if (!open_status_.ok()) return open_status_;
    // The daemon supports one stream at a time.
    if (!opened_.empty()) daemon_.Wipe();
    opened_.push_back(rank);
    libmsit::ClientOptions options;
    options.run = "run";
    options.rank = rank;
    options.world_size = 8;
    options.max_block = kLong;
    options.open_timeout = kLong;
    options.linger = kLong;
    options.buffer_bytes = 4 * libmsit::kSlotBytes;
    options.backoff_min = std::chrono::milliseconds(1);
    options.backoff_max = std::chrono::milliseconds(2);
    options.interrupt = interrupt;
    std::unique_ptr<libmsit::Client> made;
    const libmsit::Status opened =
        libmsit::Client::Open(options, daemon_.MakeTransport(), &made);
    if (!opened.ok()) return absl::UnavailableError(opened.message);
    return made;
  }
  absl::Status Attach(const std::string& name, const std::string& media_type,
                      std::string_view bytes) override {
    if (attach_failures_ > 0) {
      --attach_failures_;
      return absl::UnavailableError("the daemon starts again");
    }
    attached_[name] = bytes;
    media_types_[name] = media_type;
    return absl::OkStatus();
  }
  bool is_interrupted() override { return interrupts_; }
  void OnProgress(const ImportCounts&, int64_t) override {}

  FakeDaemon daemon_{/*acknowledges=*/true};
  std::vector<int32_t> opened_;
  std::map<std::string, std::string> attached_;
  std::map<std::string, std::string> media_types_;
  absl::Status open_status_;
  int attach_failures_ = 0;
  bool interrupts_ = false;
};

class ImportJobTest : public ::testing::Test {
 protected:
  // Writes `count` bytes of `value` as an array and returns its path. The last
  // `missing` bytes are omitted.
  std::string WriteNpy(const std::string& name, size_t count, char value = 1,
                       size_t missing = 0) {
    std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" +
                       std::to_string(count) + ",), }";
    head.resize((head.size() + 1 + 10 + 63) / 64 * 64 - 11, ' ');
    head += '\n';
    const std::string path = dir_.path() + "/" + name;
    std::ofstream file(path, std::ios::binary);
    file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(head.size() & 0xff)
         << static_cast<char>(head.size() >> 8) << head
         << std::string(count - missing, value);
    return path;
  }

  std::string WriteText(const std::string& name, const std::string& text) {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  trees::TreeEntry FileEntry(const std::string& name, const std::string& file) {
    trees::TreeEntry entry;
    entry.key.op = name;
    entry.key.io = Io::kInput;
    entry.key.index = "3";
    entry.key.token = 5;
    entry.file = file;
    return entry;
  }

  static trees::TreeEntry Value(const std::string& op, RecordKind kind,
                                const std::string& text) {
    trees::TreeEntry entry;
    entry.key.op = op;
    entry.key.io = Io::kInput;
    entry.kind = kind;
    entry.text = text;
    return entry;
  }

  // Imports `entries` as a new process would: its state is read from the
  // attachments of the run.
  absl::Status Import(const std::vector<trees::TreeEntry>& entries) {
    FakeTree tree;
    tree.entries_ = entries;
    return Import(tree);
  }
  absl::Status Import(FakeTree& tree) {
    ledger_ = std::make_unique<ImportLedger>("ge");
    for (size_t i = 0;; ++i) {
      const auto part = target_.attached_.find(ImportLedger::PartName(i));
      if (part == target_.attached_.end()) break;
      ledger_->Load(part->second);
    }
    job_ = std::make_unique<ImportJob>(options_, target_, *ledger_);
    return job_->Import(tree, dir_.path());
  }

  std::vector<libmsit::Arrived> Arrivals() {
    return libmsit::ReadChunks(target_.daemon_.chunks(),
                               target_.daemon_.stream_id());
  }

  testing::TempDir dir_;
  ImportOptions options_;
  FakeTarget target_;
  std::unique_ptr<ImportLedger> ledger_;
  std::unique_ptr<ImportJob> job_;
};

TEST_F(ImportJobTest, BytesOfAFileArriveUnderTheKeyOfTheEntry) {
  trees::TreeEntry entry = FileEntry("op", WriteNpy("a.npy", 10, 'x'));
  entry.requires_grad = true;
  entry.stack = "model.py:1 forward";
  ASSERT_TRUE(Import({entry}).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].key.op, "op");
  EXPECT_EQ(arrived[0].key.io, Io::kInput);
  EXPECT_EQ(arrived[0].key.index, "3");
  EXPECT_EQ(arrived[0].key.token, 5);
  EXPECT_EQ(arrived[0].dtype, DType::kUint8);
  EXPECT_EQ(arrived[0].dims, (std::vector<int64_t>{10}));
  EXPECT_EQ(arrived[0].bytes,
            std::vector<std::byte>(10, static_cast<std::byte>('x')));
  EXPECT_EQ(arrived[0].requires_grad, true);
  EXPECT_EQ(arrived[0].stack, "model.py:1 forward");
  EXPECT_EQ(job_->counts().file_count, 1);
  EXPECT_EQ(job_->counts().tensor_count, 1);
  EXPECT_EQ(job_->counts().size_bytes, 10);
  EXPECT_EQ(job_->problems().count(), 0);
}

TEST_F(ImportJobTest, LargeTensorArrivesInParts) {
  const size_t count = 2 * kPartBytes + 7;
  ASSERT_TRUE(Import({FileEntry("op", WriteNpy("a.npy", count))}).ok());
  EXPECT_EQ(Arrivals().size(), 3u);
  EXPECT_EQ(job_->counts().size_bytes, static_cast<int64_t>(count));
}

TEST_F(ImportJobTest, WhatTheUserSaysGoesBeforeTheTree) {
  options_ = {.rank = 3, .token = 9, .device = "npu:3", .prefix = "left."};
  ASSERT_TRUE(Import({FileEntry("op", WriteNpy("a.npy", 1))}).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].key.rank, 3);
  EXPECT_EQ(arrived[0].key.token, 9);
  EXPECT_EQ(arrived[0].key.device, "npu:3");
  EXPECT_EQ(arrived[0].key.op, "left.op");

  FakeTree tree;
  tree.ranks_ = {0, 1};
  EXPECT_EQ(Import(tree).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ImportJobTest, FileSaysWhatTheEntryLeavesOpen) {
  trees::TreeEntry entry = FileEntry("op", WriteNpy("a.npy", 1));
  entry.key.io = Io::kUnspecified;
  entry.key.index.clear();
  ASSERT_TRUE(Import({entry}).ok());
  ASSERT_EQ(Arrivals().size(), 1u);
  EXPECT_EQ(Arrivals()[0].key.io, Io::kOutput);
  EXPECT_EQ(Arrivals()[0].key.index, "0");
}

TEST_F(ImportJobTest, StatisticsOfAFileBecomeRecords) {
  trees::TreeEntry ge = FileEntry(
      "op", WriteText("ge.csv",
                      "Input/Output,Index,Data Size,Data Type,Format,Shape,"
                      "Max Value,Min Value,Avg Value\n"
                      "Input,1,24,DT_FLOAT,ND,2x3,1.5,-nan,NA\n"
                      "Output,0,24,DT_NEW,ND,2x3,1.5,0,1\n"));
  ge.key.io = Io::kUnspecified;
  const trees::TreeEntry atb = FileEntry(
      "atb", WriteText("atb.bin",
                       "dtype=0\ndims=4\nmax=2\nl2norm=3\ncount=-nan\n"
                       "crc32=\"}\nother=1\n$End=1\n"));
  for (const bool is_dry_run : {true, false}) {
    options_.is_dry_run = is_dry_run;
    ASSERT_TRUE(Import({ge, atb}).ok());
    EXPECT_EQ(job_->counts().statistics_count, 2);
    EXPECT_EQ(job_->counts().tensor_count, 0);
    EXPECT_EQ(job_->counts().file_count, 2);
    ASSERT_EQ(job_->problems().count(), 1);
    EXPECT_EQ(job_->problems().listed()[0].reason,
              "output 0: its statistics have an unknown type NEW");
  }
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].kind, RecordKind::kStatistics);
  EXPECT_EQ(arrived[0].key.io, Io::kInput);
  EXPECT_EQ(arrived[0].key.index, "1");
  EXPECT_EQ(arrived[0].dtype, DType::kFloat32);
  EXPECT_EQ(arrived[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(arrived[0].value, R"({"max": 1.5, "min": "nan"})");
  EXPECT_EQ(arrived[1].value, R"({"max": 2, "l2_norm": 3, "count": "nan"})");
}

TEST_F(ImportJobTest, SecondImportSendsOnlyWhatIsNew) {
  const std::vector<trees::TreeEntry> entries = {
      FileEntry("a", WriteNpy("a.npy", 10)),
      Value("a", RecordKind::kNumber, "7"),
      FileEntry("b", WriteNpy("b.npy", 10))};
  ASSERT_TRUE(Import(entries).ok());
  ASSERT_EQ(target_.opened_.size(), 1u);
  // As for a sealed run, opening a stream fails.
  target_.open_status_ = absl::FailedPreconditionError("sealed");
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(job_->counts().skipped_file_count, 2);
  EXPECT_EQ(job_->counts().tensor_count, 0);
  EXPECT_EQ(job_->counts().value_count, 0);

  std::vector<trees::TreeEntry> more = entries;
  more.push_back(FileEntry("c", WriteNpy("c.npy", 10)));
  EXPECT_EQ(Import(more).code(), absl::StatusCode::kFailedPrecondition);
  target_.open_status_ = absl::OkStatus();
  ASSERT_TRUE(Import(more).ok());
  EXPECT_EQ(job_->counts().skipped_file_count, 2);
  EXPECT_EQ(job_->counts().tensor_count, 1);
}

TEST_F(ImportJobTest, FileThatBecameAnotherTensorIsAProblem) {
  trees::TreeEntry entry = FileEntry("a", WriteNpy("a.npy", 10));
  ASSERT_TRUE(Import({entry}).ok());
  entry.key.call = 1;
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(Import({entry}).ok());
    EXPECT_EQ(job_->counts().tensor_count, 0);
    EXPECT_EQ(job_->counts().skipped_file_count, 1);
    ASSERT_EQ(job_->problems().count(), 1);
    EXPECT_EQ(job_->problems().listed()[0].file, entry.file);
    EXPECT_EQ(job_->problems().listed()[0].reason, ImportLedger::kOtherKey);
  }
  entry.key.call = 0;
  ASSERT_TRUE(Import({entry}).ok());
  EXPECT_EQ(job_->problems().count(), 0);
}

TEST_F(ImportJobTest, FileThatWasCutOffComesWithTheNextImport) {
  std::vector<trees::TreeEntry> entries = {
      FileEntry("a", WriteNpy("a.npy", 10)),
      FileEntry("cut", WriteNpy("cut.npy", 100, 1, /*missing=*/1)),
      FileEntry("empty", dir_.path() + "/empty.npy")};
  std::ofstream(dir_.path() + "/empty.npy").close();
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(job_->counts().tensor_count, 1);
  ASSERT_EQ(job_->problems().count(), 2);
  EXPECT_EQ(job_->problems().listed()[0].file, dir_.path() + "/cut.npy");
  EXPECT_TRUE(job_->problems().may_pass());

  WriteNpy("cut.npy", 100);
  WriteNpy("empty.npy", 5);
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(job_->counts().tensor_count, 2);
  EXPECT_EQ(job_->counts().skipped_file_count, 1);
  EXPECT_EQ(job_->problems().count(), 0);
}

TEST_F(ImportJobTest, ProblemsOfTheTreeAndOfNamesAreListed) {
  FakeTree tree;
  tree.entries_ = {FileEntry("bad\xff", WriteNpy("a.npy", 1)),
                   FileEntry("gone", dir_.path() + "/gone.npy"),
                   FileEntry("good", WriteNpy("b.npy", 1))};
  tree.problems_ = {{"readme.txt", absl::InvalidArgumentError("no dump")}};
  ASSERT_TRUE(Import(tree).ok());
  EXPECT_EQ(job_->counts().tensor_count, 1);
  EXPECT_EQ(job_->problems().count(), 3);
}

TEST_F(ImportJobTest, ValuesAndDocumentsArrive) {
  ASSERT_TRUE(Import({Value("op", RecordKind::kNumber, "-7"),
                      Value("op", RecordKind::kNone, "None"),
                      Value("tree.json", RecordKind::kDocument, "{}"),
                      Value("op", RecordKind::kNumber, "1e999999"),
                      Value("op", RecordKind::kText, "")})
                  .ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 5u);
  EXPECT_EQ(arrived[0].kind, RecordKind::kNumber);
  EXPECT_EQ(arrived[0].dtype, DType::kInt64);
  EXPECT_EQ(arrived[0].value, "-7");
  EXPECT_EQ(arrived[1].kind, RecordKind::kNone);
  EXPECT_EQ(arrived[2].kind, RecordKind::kDocument);
  EXPECT_EQ(arrived[2].bytes.size(), 2u);
  EXPECT_EQ(arrived[3].kind, RecordKind::kOther);
  EXPECT_EQ(arrived[3].value, "1e999999");
  EXPECT_EQ(job_->counts().value_count, 4);
  EXPECT_EQ(job_->counts().document_count, 1);
}

TEST_F(ImportJobTest, ValuesThatWereLostAreSaidAgain) {
  const std::vector<trees::TreeEntry> entries = {
      Value("bad\xff", RecordKind::kNumber, "7"),
      Value("good", RecordKind::kNumber, "8"),
      Value("worse\xff", RecordKind::kNumber, "9")};
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(job_->counts().value_count, 1);
  ASSERT_EQ(job_->problems().count(), 2);
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(job_->counts().value_count, 0);
  ASSERT_EQ(job_->problems().count(), 1);
  const std::string& reason = job_->problems().listed()[0].reason;
  EXPECT_EQ(reason.find("number of bad"), 0u) << reason;
  EXPECT_TRUE(reason.ends_with(" (and 1 more)")) << reason;
}

TEST_F(ImportJobTest, TensorsOfOneFileWithOneNameAreAProblem) {
  const trees::TreeEntry ge = [this] {
    const std::string row = "Input,1,24,DT_FLOAT,ND,2x3,";
    trees::TreeEntry entry = FileEntry(
        "op", WriteText("ge.csv",
                        "Input/Output,Index,Data Size,Data Type,Format,Shape,"
                        "Max Value\n" +
                            row + "1\n" + row + "2\n"));
    entry.key.io = Io::kUnspecified;
    return entry;
  }();
  for (const int64_t count : {1, 0}) {
    ASSERT_TRUE(Import({ge}).ok());
    EXPECT_EQ(job_->counts().statistics_count, count);
    EXPECT_EQ(job_->counts().conflict_count, 0);
    ASSERT_EQ(job_->problems().count(), 1);
    EXPECT_EQ(job_->problems().listed()[0].file, ge.file);
    EXPECT_EQ(job_->problems().listed()[0].reason,
              "input 1: the file contains another tensor");
  }
}

TEST_F(ImportJobTest, TensorsOfTwoFilesAreNamed) {
  const std::string first = WriteNpy("a.npy", 1);
  const std::string second = WriteNpy("b.npy", 2);
  ASSERT_TRUE(Import({FileEntry("op", first), FileEntry("other", first),
                      FileEntry("op", second), FileEntry("third", second)})
                  .ok());
  const auto& doubled = job_->doubled().listed();
  ASSERT_EQ(doubled.size(), 1u);
  EXPECT_EQ(doubled[0].file, second);
  EXPECT_EQ(doubled[0].former, first);
  EXPECT_EQ(doubled[0].op, "op");
}

TEST(DoubledRecordsTest, TheFirstAreListed) {
  DoubledRecords records;
  TensorKey key;
  for (const char* file : {"a", "b"}) {
    for (size_t i = 0; i < 2 * DoubledRecords::kListedMax; ++i) {
      key.op = std::to_string(i);
      records.Add(key, file);
    }
  }
  ASSERT_EQ(records.listed().size(), DoubledRecords::kListedMax);
  EXPECT_EQ(records.listed()[1].op, "1");
}

TEST_F(ImportJobTest, ValuesKeepTheirPlacesBetweenFiles) {
  ASSERT_TRUE(Import({Value("a", RecordKind::kNone, "None"),
                      FileEntry("b", WriteNpy("b.npy", 1)),
                      Value("c", RecordKind::kNone, "None")})
                  .ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[0].key.op, "a");
  EXPECT_EQ(arrived[1].key.op, "b");
  EXPECT_EQ(arrived[2].key.op, "c");
}

TEST_F(ImportJobTest, EachRankHasAStreamOfItsOwn) {
  std::vector<trees::TreeEntry> entries;
  for (int32_t rank : {0, 0, 4}) {
    const std::string name = "f" + std::to_string(entries.size());
    entries.push_back(FileEntry(name, WriteNpy(name, 1)));
    entries.back().key.rank = rank;
  }
  ASSERT_TRUE(Import(entries).ok());
  EXPECT_EQ(target_.opened_, (std::vector<int32_t>{0, 4}));
}

TEST_F(ImportJobTest, NothingIsInTheLedgerThatTheDaemonDidNotAcknowledge) {
  target_.daemon_.StopAcknowledging();
  options_.patience = std::chrono::milliseconds(20);
  const std::vector<trees::TreeEntry> entries = {
      FileEntry("a", WriteNpy("a.npy", 1))};
  EXPECT_EQ(Import(entries).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(target_.attached_.empty());
}

TEST_F(ImportJobTest, StreamThatIsRefusedEndsTheImport) {
  target_.daemon_.StopAcknowledging();
  target_.daemon_.RefuseNextChunk();
  EXPECT_EQ(Import({FileEntry("a", WriteNpy("a.npy", 1))}).code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(target_.attached_.empty());
}

TEST_F(ImportJobTest, InterruptKeepsWhatHasArrived) {
  class Interrupting final : public trees::Tree {
   public:
    Interrupting(FakeTree& tree, FakeTarget& target)
        : tree_(tree), target_(target) {}
    trees::TreeKind kind() const override { return tree_.kind(); }
    std::vector<int32_t> ranks() const override { return tree_.ranks(); }
    int32_t world_size() const override { return 0; }
    const std::vector<trees::TreeAttachment>& attachments() const override {
      return tree_.attachments();
    }
    const trees::TreeEntry* Next() override {
      const trees::TreeEntry* entry = tree_.Next();
      // After the last entry, the stream is being flushed.
      if (entry == nullptr) target_.interrupts_ = true;
      return entry;
    }
    std::vector<trees::TreeProblem> TakeProblems() override { return {}; }

   private:
    FakeTree& tree_;
    FakeTarget& target_;
  };
  FakeTree tree;
  tree.entries_ = {FileEntry("a", WriteNpy("a.npy", 1))};
  Interrupting interrupting(tree, target_);
  ledger_ = std::make_unique<ImportLedger>("ge");
  job_ = std::make_unique<ImportJob>(options_, target_, *ledger_);
  target_.daemon_.StopAcknowledging();
  std::thread acknowledges([&] {
    ASSERT_TRUE(target_.daemon_.WaitForChunks(1));
    while (!target_.interrupts_) std::this_thread::yield();
    target_.daemon_.CommitAll();
  });
  const absl::Status status = job_->Import(interrupting, dir_.path());
  acknowledges.join();
  // The import may end before it checks for an interrupt.
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled);
  target_.interrupts_ = false;
  ASSERT_TRUE(Import({FileEntry("a", dir_.path() + "/a.npy")}).ok());
  EXPECT_EQ(job_->counts().skipped_file_count, 1);
}

TEST_F(ImportJobTest, LedgerIsWrittenOnceTheDaemonIsBack) {
  target_.attach_failures_ = 2;
  ASSERT_TRUE(Import({FileEntry("a", WriteNpy("a.npy", 1))}).ok());
  EXPECT_EQ(target_.attached_.count("import-ledger.jsonl"), 1u);
}

TEST_F(ImportJobTest, FilesOfTheWholeRunAreAttachedOnce) {
  FakeTree tree;
  tree.attachments_ = {{"graph", WriteNpy("graph.txt", 3), "text/plain"},
                       {"gone", dir_.path() + "/gone", "text/plain"}};
  ASSERT_TRUE(Import(tree).ok());
  EXPECT_EQ(job_->counts().attachment_count, 1);
  EXPECT_EQ(job_->problems().count(), 1);
  EXPECT_EQ(target_.media_types_.at("graph"), "text/plain");
  FakeTree again;
  again.attachments_ = {tree.attachments_[0]};
  ASSERT_TRUE(Import(again).ok());
  EXPECT_EQ(job_->counts().attachment_count, 0);
  EXPECT_EQ(job_->counts().skipped_file_count, 1);
}

TEST_F(ImportJobTest, WithoutALedgerNothingIsRemembered) {
  options_.keeps_ledger = false;
  FakeTree tree;
  tree.entries_ = {FileEntry("op", WriteNpy("a.npy", 10)),
                   Value("op", RecordKind::kNumber, "1")};
  tree.attachments_ = {
      {"graph.txt", WriteText("graph.txt", "op"), "text/plain"}};
  ASSERT_TRUE(Import(tree).ok());
  EXPECT_EQ(Arrivals().size(), 2u);
  EXPECT_EQ(job_->counts().file_count, 1);
  EXPECT_EQ(target_.attached_.size(), 1u);
  EXPECT_EQ(target_.attached_.count("graph.txt"), 1u);

  ASSERT_TRUE(Import(tree.entries_).ok());
  EXPECT_EQ(Arrivals().size(), 2u);
  EXPECT_EQ(job_->counts().skipped_file_count, 0);
}

TEST_F(ImportJobTest, WhatIsSentIsTold) {
  std::vector<std::string> told;
  options_.on_sent = [&told](const libmsit::TensorView& record) {
    told.push_back(std::string(record.op) + " " +
                   std::string(RecordKindName(record.kind)));
  };
  ASSERT_TRUE(Import({FileEntry("a", WriteNpy("a.npy", 10)),
                      FileEntry("b", WriteNpy("b.npy", 10, 1, /*missing=*/3)),
                      Value("c", RecordKind::kNumber, "1")})
                  .ok());
  EXPECT_EQ(told, (std::vector<std::string>{"a tensor", "c number"}));
}

// The entry of a tree that had to read the file is already open.
TEST_F(ImportJobTest, FileThatIsOpenIsNotOpenedAgain) {
  trees::TreeEntry entry = FileEntry("op", WriteNpy("a.npy", 10, 'x'));
  entry.opened = *formats::OpenTensorFile(entry.file, {});
  std::filesystem::remove(entry.file);
  options_.keeps_ledger = false;
  ASSERT_TRUE(Import({entry}).ok());
  ASSERT_EQ(Arrivals().size(), 1u);
  EXPECT_EQ(Arrivals()[0].bytes,
            std::vector<std::byte>(10, static_cast<std::byte>('x')));
}

TEST_F(ImportJobTest, DryRunOpensFilesAndSendsNothing) {
  options_.is_dry_run = true;
  target_.open_status_ = absl::InternalError("nobody may open it");
  ASSERT_TRUE(Import({FileEntry("a", WriteNpy("a.npy", 10)),
                      FileEntry("cut", WriteNpy("cut.npy", 10, 1, 1)),
                      Value("op", RecordKind::kNone, "None")})
                  .ok());
  EXPECT_EQ(job_->counts().tensor_count, 1);
  EXPECT_EQ(job_->counts().value_count, 1);
  EXPECT_EQ(job_->problems().count(), 1);
  EXPECT_TRUE(target_.attached_.empty());
}

TEST_F(ImportJobTest, RunThatFiltersCountsWhatItDoesNotWant) {
  target_.daemon_.SetPolicy(capture::Encode(
      {{.revision = 1,
        .first_token = 0,
        .rules = {{.level = capture::Level::kOff, .tensors = {}}}}}));
  ASSERT_TRUE(Import({FileEntry("a", WriteNpy("a.npy", 10))}).ok());
  EXPECT_EQ(job_->counts().filtered_count, 1);
  EXPECT_TRUE(Arrivals().empty());
}

}  // namespace
}  // namespace msitd::fill
