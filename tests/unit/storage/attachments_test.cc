// SPDX-License-Identifier: Apache-2.0
#include "storage/face/attachments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns bytes that differ between pieces.
std::string Bytes(size_t count, char seed = 'a') {
  std::string out(count, seed);
  for (size_t i = 0; i < count; i += 1000) out[i] = static_cast<char>(i / 1000);
  return out;
}

class AttachmentsTest : public testing::EitherStoreTest {
 protected:
  AttachmentsTest() {
    EXPECT_TRUE(store_.runs().CreateRun({"run", 0, {}}).ok());
  }

  Attachments& attachments() { return store_.attachments(); }

  absl::StatusOr<AttachmentInfo> Write(const AttachmentSpec& spec,
                                       std::string_view bytes) {
    MSITD_ASSIGN_OR_RETURN(const auto writer, attachments().Begin(spec));
    MSITD_RETURN_IF_ERROR(writer->Append(bytes));
    return writer->Commit();
  }

  std::vector<std::string> Names(std::string_view after = "",
                                 size_t limit = 1000) {
    std::vector<std::string> out;
    const auto found = attachments().ListAttachments("run", after, limit);
    EXPECT_TRUE(found.ok()) << found.status();
    for (const AttachmentInfo& info : *found) out.push_back(info.name);
    return out;
  }

  std::string ReasonOfGet(std::string_view run, std::string_view name) {
    return Reason(attachments().GetAttachment(run, name).status());
  }
};

MSITD_ON_BOTH_STORES(AttachmentsTest);

TEST_P(AttachmentsTest, BytesComeBackAsTheyWereWritten) {
  const std::string bytes = Bytes(1'000'000);
  const auto writer = attachments().Begin({"run", "tree", "text/plain"});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t at = 0; at < bytes.size(); at += 70'001) {
    ASSERT_TRUE((*writer)->Append(bytes.substr(at, 70'001)).ok());
  }
  const auto written = (*writer)->Commit();
  ASSERT_TRUE(written.ok()) << written.status();

  const auto info = attachments().GetAttachment("run", "tree");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, "tree");
  EXPECT_EQ(info->media_type, "text/plain");
  EXPECT_EQ(info->size_bytes, bytes.size());
  EXPECT_EQ(info->hash, chunk::HashBytes(std::as_bytes(std::span(bytes))));
  EXPECT_EQ(info->hash, written->hash);
  EXPECT_EQ(info->id, written->id);
  EXPECT_GT(info->create_time_ns, 0);
  for (const size_t offset : {size_t{0}, size_t{262'143}, size_t{262'144},
                              size_t{700'000}, size_t{999'999}}) {
    for (const size_t limit : {size_t{1}, size_t{300'000}, bytes.size()}) {
      EXPECT_EQ(*attachments().ReadAttachment(*info, offset, limit),
                bytes.substr(offset, limit))
          << offset << " " << limit;
    }
  }
  EXPECT_EQ(*attachments().ReadAttachment(*info, bytes.size(), 1), "");
}

TEST_P(AttachmentsTest, EmptyOnesAndSealedRunsAreFine) {
  ASSERT_TRUE(store_.runs().SealRun("run").ok());
  const auto written = Write({"run", "empty", "text/plain"}, "");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(attachments().GetAttachment("run", "empty")->size_bytes, 0);
  EXPECT_EQ(*attachments().ReadAttachment(*written, 0, 10), "");
}

TEST_P(AttachmentsTest, NothingIsThereBeforeTheCommit) {
  auto writer = attachments().Begin({"run", "a", "text/plain"});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(Bytes(600'000)).ok());
  EXPECT_EQ(ReasonOfGet("run", "a"), "ATTACHMENT_NOT_FOUND");
  EXPECT_THAT(Names(), IsEmpty());
  writer->reset();
  EXPECT_EQ(ReasonOfGet("run", "a"), "ATTACHMENT_NOT_FOUND");
}

TEST_P(AttachmentsTest, ListsInTheOrderOfNamesPageByPage) {
  for (const char* name : {"b", "a/1", "c", "a"}) {
    ASSERT_TRUE(Write({"run", name, "text/plain"}, name).ok());
  }
  ASSERT_TRUE(store_.runs().CreateRun({"other", 0, {}}).ok());
  ASSERT_TRUE(Write({"other", "z", "text/plain"}, "z").ok());
  EXPECT_THAT(Names(), ElementsAre("a", "a/1", "b", "c"));
  EXPECT_THAT(Names("", 2), ElementsAre("a", "a/1"));
  EXPECT_THAT(Names("a/1", 2), ElementsAre("b", "c"));
  EXPECT_THAT(Names("c", 2), IsEmpty());
}

TEST_P(AttachmentsTest, OneIsReplacedOnlyIfThatWasAskedFor) {
  const auto first = Write({"run", "a", "text/plain"}, Bytes(500'000));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto refused = Write({"run", "a", "text/plain"}, "new");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Reason(refused.status()), "ATTACHMENT_EXISTS");

  const auto second = Write({"run", "a", "text/x", true}, "new");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(second->id, first->id);
  EXPECT_EQ(attachments().GetAttachment("run", "a")->media_type, "text/x");
  EXPECT_EQ(*attachments().ReadAttachment(*second, 0, 10), "new");
  // A reader that has already started gets the old bytes or an error.
  const auto old = attachments().ReadAttachment(*first, 0, 600'000);
  if (old.ok()) {
    EXPECT_EQ(*old, Bytes(500'000));
  } else {
    EXPECT_EQ(Reason(old.status()), "ATTACHMENT_NOT_FOUND");
  }
}

TEST_P(AttachmentsTest, OfTwoWritersOfANameTheFirstThatEndsHasIt) {
  const auto one = attachments().Begin({"run", "a", "text/plain"});
  const auto two = attachments().Begin({"run", "a", "text/plain"});
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE((*one)->Append("one").ok());
  ASSERT_TRUE((*two)->Append("two").ok());
  ASSERT_TRUE((*two)->Commit().ok());
  EXPECT_EQ(Reason((*one)->Commit().status()), "ATTACHMENT_EXISTS");
  const auto info = attachments().GetAttachment("run", "a");
  EXPECT_EQ(*attachments().ReadAttachment(*info, 0, 10), "two");
}

TEST_P(AttachmentsTest, OfTwoThatReplaceTheLastStays) {
  const auto one = attachments().Begin({"run", "a", "text/plain", true});
  const auto two = attachments().Begin({"run", "a", "text/plain", true});
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE((*one)->Append("one").ok());
  ASSERT_TRUE((*two)->Append("two").ok());
  ASSERT_TRUE((*two)->Commit().ok());
  ASSERT_TRUE((*one)->Commit().ok());
  const auto info = attachments().GetAttachment("run", "a");
  EXPECT_EQ(*attachments().ReadAttachment(*info, 0, 10), "one");
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_P(AttachmentsTest, DeletedOnesAreGone) {
  const auto info = Write({"run", "a", "text/plain"}, "bytes");
  ASSERT_TRUE(info.ok());
  ASSERT_TRUE(attachments().DeleteAttachment("run", "a").ok());
  EXPECT_EQ(ReasonOfGet("run", "a"), "ATTACHMENT_NOT_FOUND");
  EXPECT_EQ(Reason(attachments().DeleteAttachment("run", "a")),
            "ATTACHMENT_NOT_FOUND");
  EXPECT_TRUE(Write({"run", "a", "text/plain"}, "again").ok());
}

TEST_P(AttachmentsTest, TheyGoWithTheirRun) {
  ASSERT_TRUE(Write({"run", "a", "text/plain"}, "bytes").ok());
  const auto writer = attachments().Begin({"run", "b", "text/plain"});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("more").ok());
  ASSERT_TRUE(store_.runs().DeleteRun("run").ok());
  EXPECT_EQ(ReasonOfGet("run", "a"), "RUN_NOT_FOUND");
  EXPECT_EQ(Reason((*writer)->Commit().status()), "RUN_NOT_FOUND");
  // Another run of the same name has none of the attachments.
  ASSERT_TRUE(store_.runs().CreateRun({"run", 0, {}}).ok());
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(ReasonOfGet("run", "b"), "ATTACHMENT_NOT_FOUND");
}

TEST_P(AttachmentsTest, ARunThatIsNotThereHasNone) {
  EXPECT_EQ(ReasonOfGet("no", "a"), "RUN_NOT_FOUND");
  EXPECT_EQ(Reason(attachments().ListAttachments("no", "", 1).status()),
            "RUN_NOT_FOUND");
  EXPECT_EQ(Reason(attachments().Begin({"no", "a", "text/plain"}).status()),
            "RUN_NOT_FOUND");
  EXPECT_EQ(Reason(attachments().DeleteAttachment("no", "a")), "RUN_NOT_FOUND");
}

TEST_P(AttachmentsTest, OneIsNotLargerThanItsBound) {
  const auto writer = attachments().Begin({"run", "a", "text/plain"});
  ASSERT_TRUE(writer.ok());
  const std::string piece(kAttachmentBytesMax / 4, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*writer)->Append(piece).ok());
  const absl::Status status = (*writer)->Append("y");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(status), "ATTACHMENTS_EXHAUSTED");
}

TEST_P(AttachmentsTest, ARunHasNoMoreThanItsBound) {
  // An attachment that was begun in time has no space when it is committed.
  const auto late = attachments().Begin({"run", "late", "text/plain"});
  ASSERT_TRUE(late.ok());
  for (size_t i = 0; i < kRunAttachmentsMax; ++i) {
    ASSERT_TRUE(Write({"run", std::to_string(i), "text/plain"}, "x").ok());
  }
  EXPECT_EQ(Reason(Write({"run", "more", "text/plain"}, "x").status()),
            "ATTACHMENTS_EXHAUSTED");
  EXPECT_EQ(Reason((*late)->Commit().status()), "ATTACHMENTS_EXHAUSTED");
  EXPECT_TRUE(Write({"run", "7", "text/plain", true}, "x").ok());
  ASSERT_TRUE(attachments().DeleteAttachment("run", "8").ok());
  EXPECT_TRUE(Write({"run", "more", "text/plain"}, "x").ok());
}

}  // namespace
}  // namespace msitd::storage
