// SPDX-License-Identifier: Apache-2.0
#include "storage/check/attachment_check.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "storage/check/store_check.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AttachmentCheckTest : public StoreTest {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    auto writer = store_->attachments().Begin({"r", name, "text/plain"});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(bytes).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  }

  // Closes the store and damages the last piece of its attachments: replaces it
  // with `bytes`, or removes it.
  void Damage(const std::optional<std::string>& bytes) {
    ASSERT_TRUE(store_->Close().ok());
    Drop();
    auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    ASSERT_TRUE(db.ok()) << db.status();
    std::string last;
    {
      const auto it = (*db)->Iterate(Table::kRun, rocksdb::ReadOptions());
      it->SeekForPrev("c");
      ASSERT_TRUE(it->Valid() && it->key().starts_with("b"));
      last = it->key().ToString();
    }
    rocksdb::WriteBatch batch;
    if (bytes.has_value()) {
      (*db)->Put(batch, Table::kRun, last, *bytes);
    } else {
      (*db)->Delete(batch, Table::kRun, last);
    }
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  }

  std::vector<std::string> Check() {
    std::vector<std::string> problems;
    auto store = StoreView::Open(options_.directory, Env::Posix());
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return problems;
    const auto report = CheckStore(*store, [&](const StoreProblem& problem) {
      problems.push_back(problem.what);
    });
    EXPECT_TRUE(report.ok()) << report.status();
    if (report.ok()) report_ = *report;
    return problems;
  }

  StoreCheckReport report_;
};

TEST_F(AttachmentCheckTest, SoundOnesAreCounted) {
  OpenWithRun("r");
  Write("empty", "");
  Write("large", std::string(700'000, 'x'));
  EXPECT_THAT(Check(), IsEmpty()) << "beside a daemon";
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(report_.attachments.attachment_count, 2u);
  EXPECT_EQ(report_.attachments.attachment_bytes, 700'000u);
}

TEST_F(AttachmentCheckTest, ChangedBytesAreAProblem) {
  OpenWithRun("r");
  Write("small", "bytes");
  Damage("bytez");
  EXPECT_THAT(
      Check(),
      ElementsAre(HasSubstr("attachment small of run r: its bytes do not")));
}

TEST_F(AttachmentCheckTest, MissingAndShortPiecesAreProblems) {
  OpenWithRun("r");
  Write("large", std::string(700'000, 'x'));
  Damage("short");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("attachment large of run r")));
  Open();
  Damage(std::nullopt);
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("attachment large of run r")));
}

}  // namespace
}  // namespace msitd::storage
