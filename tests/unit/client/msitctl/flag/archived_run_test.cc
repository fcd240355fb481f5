// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/archived_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::msitctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ArchivedRun, HasAReadingForEachSlash) {
  EXPECT_THAT(ReadingsOf("s3://bucket/golden"),
              ElementsAre(ArchivedRunName{"s3://bucket", "golden"}));
  EXPECT_THAT(ReadingsOf("s3://bucket/runs/team/golden"),
              ElementsAre(ArchivedRunName{"s3://bucket/runs/team", "golden"},
                          ArchivedRunName{"s3://bucket/runs", "team/golden"},
                          ArchivedRunName{"s3://bucket", "runs/team/golden"}));
  EXPECT_THAT(ReadingsOf("file:///srv/golden"),
              ElementsAre(ArchivedRunName{"file:///srv", "golden"}));
  EXPECT_THAT(ReadingsOf("s3://b-1/x,s3://b-2/x/golden"),
              ElementsAre(ArchivedRunName{"s3://b-1/x,s3://b-2/x", "golden"},
                          ArchivedRunName{"s3://b-1/x,s3://b-2", "x/golden"}));
}

TEST(ArchivedRun, IsAUrlWithARunAfterIt) {
  for (const char* const text :
       {"", "golden", "/srv/golden", "s3://bucket", "s3://bucket/", "s3:///",
        "s3://", "file:///golden", "file:///"}) {
    EXPECT_THAT(ReadingsOf(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace msitd::msitctl
