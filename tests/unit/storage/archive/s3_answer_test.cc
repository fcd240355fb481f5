// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"
#include "storage/archive/s3_objects.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(S3List, TakesWhatLiesDirectlyInTheFolder) {
  ObjectList list;
  std::string next = "old";
  const absl::Status status = ReadS3List(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://x\">"
      "<IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&amp;b&lt;</NextContinuationToken>"
      "<Contents><Key>p/one</Key><Size>1</Size></Contents>"
      "<Contents><Key>p/sub/two</Key></Contents>"
      "<Contents><Key>p/.dot</Key></Contents>"
      "<Contents><Key>p/</Key></Contents>"
      "<Contents><Key>other/three</Key></Contents>"
      "<CommonPrefixes><Prefix>p/folder/</Prefix></CommonPrefixes>"
      "<CommonPrefixes><Prefix>p/../</Prefix></CommonPrefixes>"
      "</ListBucketResult>",
      "p/", list, next);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(list.objects, ElementsAre("one"));
  // The folder of an object in a subfolder is listed, too.
  EXPECT_THAT(list.folders, ElementsAre("sub", "folder"));
  EXPECT_EQ(next, "a&b<");
}

TEST(S3List, RefusesWhatIsNone) {
  ObjectList list;
  std::string next;
  for (const char* const body :
       {"", "<html>hello</html>", "<ListBucketRes", "{\"a\": 1}",
        "<ListBucketResult><IsTruncated>true</IsTruncated></"
        "ListBucketResult>"}) {
    EXPECT_TRUE(absl::IsDataLoss(ReadS3List(body, "", list, next))) << body;
  }
  ASSERT_TRUE(
      ReadS3List("<ListBucketResult></ListBucketResult>", "", list, next).ok());
  EXPECT_THAT(list.objects, IsEmpty());
}

// A truncated response must not be read as a shorter list.
TEST(S3List, RefusesWhatIsNotWhole) {
  const std::string good =
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"s3\"><Name>b</Name>"
      "<IsTruncated>false</IsTruncated>"
      "<Contents><Key>a</Key><Size>1</Size></Contents>"
      "<CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes><Delimiter/>"
      "</ListBucketResult>";
  std::string next;
  ObjectList list;
  ASSERT_TRUE(ReadS3List(good, "", list, next).ok());
  EXPECT_THAT(list.objects, ElementsAre("a"));
  EXPECT_THAT(list.folders, ElementsAre("f"));
  for (size_t size = 0; size < good.size(); ++size) {
    ObjectList part;
    EXPECT_TRUE(absl::IsDataLoss(
        ReadS3List(std::string_view(good).substr(0, size), "", part, next)))
        << good.substr(0, size);
  }
  for (const char* const bad :
       {"<html><body>Bad Gateway</body></html>",
        "<Error><Code>SlowDown</Code></Error>",
        "<ListBucketResult><Contents><Key>a</Key></ListBucketResult>",
        "<ListBucketResult><Contents></Contents></ListBucketResult>",
        "<ListBucketResult><CommonPrefixes/><CommonPrefixes>"
        "</CommonPrefixes></ListBucketResult>",
        "<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
        "<ListBucketResult></ListBucketResult><ListBucketResult>"
        "</ListBucketResult>",
        "x<ListBucketResult", "<>"}) {
    ObjectList none;
    EXPECT_TRUE(absl::IsDataLoss(ReadS3List(bad, "", none, next))) << bad;
  }
  ObjectList empty;
  EXPECT_TRUE(ReadS3List("<ListBucketResult/>", "", empty, next).ok());
}

TEST(S3List, KnowsFoldersOfAServerWithoutDelimiters) {
  ObjectList list;
  std::string next;
  ASSERT_TRUE(ReadS3List("<ListBucketResult>"
                         "<Contents><Key>p/r/manifest</Key></Contents>"
                         "<Contents><Key>p/r/pack-1</Key></Contents>"
                         "<Contents><Key>p/probe</Key></Contents>"
                         "</ListBucketResult>",
                         "p/", list, next)
                  .ok());
  EXPECT_THAT(list.folders, ElementsAre("r", "r"));
  EXPECT_THAT(list.objects, ElementsAre("probe"));
}

absl::Status ErrorOf(long code, const std::string& body = "") {
  S3Answer answer;
  answer.code = code;
  answer.body = body;
  return S3Error(answer, "read s3://b/k", "b");
}

TEST(S3Error, SaysWhatToDo) {
  const absl::Status refused = ErrorOf(
      403,
      "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message>"
      "<AWSAccessKeyId>AKID-hunter2</AWSAccessKeyId></Error>");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  const std::string text(Message(refused));
  EXPECT_THAT(text, HasSubstr("InvalidAccessKeyId"));
  EXPECT_THAT(text, HasSubstr("bucket 'b'"));
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(std::string(Message(
                  ErrorOf(404, "<Error><Code>NoSuchBucket</Code></Error>"))),
              HasSubstr("there is no bucket 'b'"));
  EXPECT_EQ(ErrorOf(404).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorOf(412).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrorOf(416).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reason(ErrorOf(507)), "DISK_FULL");
  EXPECT_EQ(ErrorOf(503).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(
                  ErrorOf(503, "<Code>not a name: <b>hunter2</b></Code>"))),
              Not(HasSubstr("hunter2")));
}

TEST(S3Endpoint, IsSafeOrOfThisMachine) {
  for (const char* const good :
       {"https://s3.example.com", "https://s3.example.com:8443/",
        "http://127.0.0.1:8333", "http://localhost:1", "http://[::1]:80"}) {
    EXPECT_TRUE(CheckS3Endpoint(good).ok()) << good;
  }
  for (const char* const bad :
       {"", "s3.example.com", "http://s3.example.com", "http://10.0.0.1:80",
        "https://", "https://u:hunter2@host", "https://host/path",
        "https://host?x", "ftp://host", "http://localhost.evil.com",
        "http://127.0.0.1.evil.com:80"}) {
    const absl::Status status = CheckS3Endpoint(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace msitd::storage
