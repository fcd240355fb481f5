// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ArchiveUrl, ReadsBothSchemes) {
  const auto file = ParseArchiveUrl("file:///srv/my runs/a/");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->is_s3);
  EXPECT_EQ(file->path, "/srv/my runs/a");
  EXPECT_EQ(file->ToString(), "file:///srv/my runs/a");
  const auto s3 = ParseArchiveUrl("s3://bucket/some/prefix");
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_EQ(s3->bucket, "bucket");
  EXPECT_EQ(s3->path, "some/prefix");
  EXPECT_EQ(s3->ToString(), "s3://bucket/some/prefix");
  EXPECT_EQ(ParseArchiveUrl("s3://bucket")->ToString(), "s3://bucket");
}

TEST(ArchiveUrl, RefusesWhatLeadsElsewhere) {
  for (const char* const text :
       {"", "x", "file://relative", "file:///", "file://", "file:///a/../b",
        "file:///a/./b", "file:///a//b", "s3://", "s3://b", "s3:///x",
        "s3://bucket/../x", "s3://bucket/a//b", "s3://bucket/.hidden",
        "s3://bucket/a b", "s3://buc_ket/x", "http://host/bucket",
        "file:///a/.."}) {
    const auto url = ParseArchiveUrl(text);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(Reason(url.status()), "FIELD_INVALID") << text;
  }
}

TEST(ArchiveUrl, NeverRepeatsASecret) {
  for (const char* const text :
       {"s3://AKID:hunter2@bucket/x", "https://me:hunter2@host/b",
        "s3://bucket/x?X-Amz-Signature=hunter2", "file:///a#hunter2",
        "ftp://hunter2"}) {
    const auto url = ParseArchiveUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(std::string(Message(url.status())), Not(HasSubstr("hunter2")));
  }
}

TEST(ArchiveUrl, KnowsWhatLiesWithin) {
  const ArchiveUrl top = *ParseArchiveUrl("file:///srv/a");
  EXPECT_TRUE(ParseArchiveUrl("file:///srv/a")->IsWithin(top));
  EXPECT_TRUE(ParseArchiveUrl("file:///srv/a/b/c")->IsWithin(top));
  EXPECT_EQ(ParseArchiveUrl("file:///srv/a/b/c")->Below(top), "b/c");
  EXPECT_EQ(ParseArchiveUrl("file:///srv/a")->Below(top), "");
  EXPECT_FALSE(ParseArchiveUrl("file:///srv/ab")->IsWithin(top));
  EXPECT_FALSE(ParseArchiveUrl("file:///srv")->IsWithin(top));
  const ArchiveUrl bucket = *ParseArchiveUrl("s3://bucket");
  EXPECT_TRUE(ParseArchiveUrl("s3://bucket/x")->IsWithin(bucket));
  EXPECT_EQ(ParseArchiveUrl("s3://bucket/x/y")->Below(bucket), "x/y");
  EXPECT_FALSE(ParseArchiveUrl("s3://bucket2/x")->IsWithin(bucket));
  EXPECT_FALSE(ParseArchiveUrl("file:///bucket/x")->IsWithin(bucket));
}

TEST(RunFolder, ComesBack) {
  for (const std::string run :
       {"golden-fp32", "tp8_bf16", "a_x5F", "a_xb", ".hidden", "..", "a/b",
        "ein Lauf ü", "x", "_x", "__x", "%41", "a.b"}) {
    const auto folder = RunFolder(run);
    ASSERT_TRUE(folder.ok()) << run;
    EXPECT_EQ(folder->find('/'), std::string::npos);
    EXPECT_FALSE(folder->starts_with('.'));
    EXPECT_EQ(RunOfFolder(*folder), run);
  }
  EXPECT_EQ(*RunFolder("golden-fp32"), "golden-fp32");
  EXPECT_EQ(*RunFolder("tp8_bf16"), "tp8_bf16");
}

TEST(RunFolder, RefusesWhatItNeverMakes) {
  for (const char* const folder : {"a_x", "a_x4", "a_xZZ", "a_x41", "a_x5f"}) {
    EXPECT_EQ(RunOfFolder(folder), "") << folder;
  }
  EXPECT_FALSE(RunFolder("").ok());
  EXPECT_EQ(Reason(RunFolder(std::string(100, ' ')).status()), "NAME_TOO_LONG");
}

}  // namespace
}  // namespace msitd::storage
