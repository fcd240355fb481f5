// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace msitd::fill {
namespace {

LedgerEntry File(const std::string& path, int64_t mtime_ns = 7) {
  return {.path = path, .bytes = 100, .mtime_ns = mtime_ns, .record_count = 1};
}

// Saves the unsaved parts, as in the attachments of a run.
void Save(ImportLedger& ledger, std::map<std::string, std::string>& parts) {
  while (const auto part = ledger.Unsaved()) {
    parts[part->name] = part->text;
    ledger.SetSaved();
  }
}

class ImportLedgerTest : public ::testing::Test {
 protected:
  void AddAndSave(const LedgerEntry& entry) {
    ledger_.Add(entry);
    ledger_.Mark();
    ASSERT_TRUE(ledger_.Settle().ok());
    Save(ledger_, parts_);
  }

  static bool Has(const ImportLedger& ledger, const LedgerEntry& entry) {
    std::string problem;
    return ledger.Has(entry, problem);
  }

  ImportLedger Loaded() const {
    ImportLedger loaded("ge");
    for (size_t i = 0; i < parts_.size(); ++i) {
      loaded.Load(parts_.at(ImportLedger::PartName(i)));
    }
    return loaded;
  }

  ImportLedger ledger_{"ge"};
  std::map<std::string, std::string> parts_;
};

TEST_F(ImportLedgerTest, FileIsFoundBySizeAndTime) {
  AddAndSave(File("a/b"));
  const ImportLedger loaded = Loaded();
  EXPECT_EQ(loaded.loaded_source(), "ge");
  EXPECT_TRUE(Has(loaded, File("a/b")));
  EXPECT_FALSE(Has(loaded, File("a/c")));
  EXPECT_FALSE(Has(loaded, File("a/b", 8)));
  LedgerEntry larger = File("a/b");
  larger.bytes = 101;
  EXPECT_FALSE(Has(loaded, larger));
  LedgerEntry part = File("a/b");
  part.tensor = "weight";
  EXPECT_FALSE(Has(loaded, part));
}

TEST_F(ImportLedgerTest, OnlyWhatIsSettledIsWritten) {
  ledger_.Add(File("settled"));
  ledger_.Mark();
  ledger_.Add(File("added"));
  ASSERT_TRUE(ledger_.Settle().ok());
  Save(ledger_, parts_);
  const ImportLedger loaded = Loaded();
  EXPECT_TRUE(Has(loaded, File("settled")));
  EXPECT_FALSE(Has(loaded, File("added")));
}

TEST_F(ImportLedgerTest, ScopesDoNotMix) {
  ledger_.SetScope("rank 1");
  AddAndSave(File("a"));
  ImportLedger loaded = Loaded();
  EXPECT_FALSE(Has(loaded, File("a")));
  loaded.SetScope("rank 1");
  EXPECT_TRUE(Has(loaded, File("a")));
}

TEST_F(ImportLedgerTest, NamesMayHaveAnyBytes) {
  for (const char* path : {"a b\n\"c\"", "\xff\xfe", "\xe4\xb8\xad"}) {
    AddAndSave(File(path));
    EXPECT_TRUE(Has(Loaded(), File(path))) << path;
  }
  EXPECT_FALSE(Has(Loaded(), File("\xff")));
}

TEST_F(ImportLedgerTest, ProblemsAreRemembered) {
  LedgerEntry entry = File("a");
  entry.problem = "its elements are texts";
  AddAndSave(entry);
  std::string problem;
  EXPECT_TRUE(Loaded().Has(File("a"), problem));
  EXPECT_EQ(problem, "its elements are texts");
}

TEST_F(ImportLedgerTest, FileWithAnotherKeyIsAProblem) {
  const auto with_key = [](uint64_t key) {
    LedgerEntry entry = File("a");
    entry.key = key;
    return entry;
  };
  const auto problem_of = [this](const LedgerEntry& entry) {
    std::string problem;
    EXPECT_TRUE(Loaded().Has(entry, problem));
    return problem;
  };
  AddAndSave(with_key(0xfedcba9876543210));
  EXPECT_EQ(problem_of(with_key(0xfedcba9876543210)), "");
  EXPECT_EQ(problem_of(with_key(2)), ImportLedger::kOtherKey);
  // A tree may contain the same file twice.
  AddAndSave(with_key(2));
  EXPECT_EQ(problem_of(with_key(0xfedcba9876543210)), "");
  EXPECT_EQ(problem_of(with_key(2)), "");
  EXPECT_EQ(problem_of(with_key(3)), ImportLedger::kOtherKey);
}

TEST_F(ImportLedgerTest, LinesWithoutAKeyStandForAnyOne) {
  ledger_.Load(
      R"({"file": "a", "bytes": 100, "mtime_ns": 7, "records": 1})"
      "\n"
      R"({"file": "b", "bytes": 100, "mtime_ns": 7, "key": "no hash"})");
  for (const char* const path : {"a", "b"}) {
    LedgerEntry entry = File(path);
    entry.key = 5;
    std::string problem;
    EXPECT_TRUE(ledger_.Has(entry, problem));
    EXPECT_EQ(problem, "");
  }
}

TEST_F(ImportLedgerTest, ValuesAreFoundByTheirHash) {
  AddAndSave({.values = "abc", .record_count = 3});
  EXPECT_TRUE(Has(Loaded(), {.values = "abc"}));
  EXPECT_FALSE(Has(Loaded(), {.values = "abd"}));
}

TEST_F(ImportLedgerTest, FullPartIsFollowedByAnother) {
  const std::string folder(1000, 'f');
  const int count = static_cast<int>(2 * ImportLedger::kPartBytesMax / 1000);
  for (int i = 0; i < count; ++i) {
    ledger_.Add(File(folder + std::to_string(i)));
    if (i % 100 != 0) continue;
    ledger_.Mark();
    ASSERT_TRUE(ledger_.Settle().ok());
    if (i % 1000 == 0) Save(ledger_, parts_);
  }
  ledger_.Mark();
  ASSERT_TRUE(ledger_.Settle().ok());
  Save(ledger_, parts_);
  ASSERT_GE(parts_.size(), 2u);
  for (const auto& [name, text] : parts_) {
    EXPECT_LT(text.size(), ImportLedger::kPartBytesMax * 11 / 10) << name;
  }
  ImportLedger loaded = Loaded();
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(Has(loaded, File(folder + std::to_string(i)))) << i;
  }
  // The ledger continues in the last part.
  loaded.Add(File("more"));
  loaded.Mark();
  ASSERT_TRUE(loaded.Settle().ok());
  const size_t part_count = parts_.size();
  Save(loaded, parts_);
  EXPECT_LE(parts_.size(), part_count + 1);
  EXPECT_TRUE(Has(Loaded(), File("more")));
  EXPECT_TRUE(Has(Loaded(), File(folder + "0")));
}

TEST_F(ImportLedgerTest, LinesThatAreNotUnderstoodArePassedOver) {
  AddAndSave(File("good"));
  parts_["import-ledger.jsonl"] +=
      "no json\n[1]\n{\"file\": 7}\n{}\n{\"file\": \"half";
  const ImportLedger loaded = Loaded();
  EXPECT_TRUE(Has(loaded, File("good")));
  EXPECT_FALSE(Has(loaded, File("half")));
  ImportLedger torn = Loaded();
  torn.Add(File("more"));
  torn.Mark();
  ASSERT_TRUE(torn.Settle().ok());
  Save(torn, parts_);
  EXPECT_TRUE(Has(Loaded(), File("more")));
}

}  // namespace
}  // namespace msitd::fill
