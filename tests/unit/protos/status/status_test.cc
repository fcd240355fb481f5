// SPDX-License-Identifier: Apache-2.0
#include "protos/status/status.h"

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace msitd {
namespace {

TEST(StatusTest, MakeStatusFormatsItsMessage) {
  const absl::Status status =
      MakeStatus(absl::StatusCode::kNotFound, "run '{}' of {}", "a", 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "run 'a' of 3");
}

TEST(StatusTest, AnnotateAddsOnePhraseAndKeepsTheRest) {
  const absl::Status inner = WithMetadata(
      WithReason(absl::DataLossError("bad"), ErrorReason::kFrameCorrupt),
      "segment", "42");
  const absl::Status outer = Annotate(inner, "read segment 42");
  EXPECT_EQ(outer.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Message(outer), "read segment 42: bad");
  EXPECT_EQ(Reason(outer), "FRAME_CORRUPT");
  EXPECT_EQ(Metadata(outer),
            (std::map<std::string, std::string>{{"segment", "42"}}));
}

TEST(StatusTest, AnnotateLeavesOkAlone) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "anything").ok());
}

TEST(StatusTest, ReasonIsEmptyWhereNoneWasSet) {
  EXPECT_EQ(Reason(absl::InternalError("x")), "");
  EXPECT_TRUE(Metadata(absl::InternalError("x")).empty());
}

TEST(StatusTest, ReasonIsAskedForByItsValue) {
  const absl::Status status =
      WithReason(absl::NotFoundError("x"), ErrorReason::kRunNotFound);
  EXPECT_TRUE(HasReason(status, ErrorReason::kRunNotFound));
  EXPECT_FALSE(HasReason(status, ErrorReason::kTensorNotFound));
  EXPECT_FALSE(HasReason(absl::NotFoundError("x"), ErrorReason::kRunNotFound));
}

TEST(StatusTest, ReasonMayComeByName) {
  const absl::Status status = WithReason(absl::NotFoundError("x"), "DISK_FULL");
  EXPECT_TRUE(HasReason(status, ErrorReason::kDiskFull));
  EXPECT_EQ(Reason(WithReason(absl::NotFoundError("x"), "")), "");
}

TEST(StatusTest, InvalidFieldIsNamedToPeopleAndMachines) {
  const absl::Status status = FieldInvalid("filter.ranks[3]", "-1 is no rank");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "filter.ranks[3]: -1 is no rank");
  EXPECT_TRUE(HasReason(status, ErrorReason::kFieldInvalid));
  EXPECT_EQ(Metadata(status),
            (std::map<std::string, std::string>{{"field", "filter.ranks[3]"}}));
}

TEST(StatusTest, MetadataDoesNotHoldTheReason) {
  const absl::Status status = WithMetadata(
      WithMetadata(
          WithReason(absl::OutOfRangeError("x"), ErrorReason::kRankBusy), "a",
          "1"),
      "b", "2");
  EXPECT_EQ(Metadata(status),
            (std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}}));
}

TEST(StatusTest, ErrnoGivesTheCodeThatSaysWhatToDo) {
  struct Row {
    int error_number;
    absl::StatusCode code;
  };
  constexpr Row kRows[] = {
      {ENOENT, absl::StatusCode::kNotFound},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EIO, absl::StatusCode::kUnavailable},
  };
  for (const Row& row : kRows) {
    const absl::Status status = ErrnoStatus(row.error_number, "open x");
    EXPECT_EQ(status.code(), row.code) << row.error_number;
    EXPECT_EQ(Message(status).substr(0, 8), "open x: ");
    EXPECT_GT(Message(status).size(), 8u);
  }
}

absl::StatusOr<std::unique_ptr<int>> MakeInt(bool good) {
  if (!good) return absl::AbortedError("no int");
  return std::make_unique<int>(5);
}

absl::StatusOr<int> SumOfTwo(bool first, bool second) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, MakeInt(first));
  MSITD_ASSIGN_OR_RETURN(const auto b, MakeInt(second));
  return *a + *b;
}

absl::Status Both(const absl::Status& first, const absl::Status& second) {
  MSITD_RETURN_IF_ERROR(first);
  MSITD_RETURN_IF_ERROR(second);
  return absl::OkStatus();
}

TEST(StatusMacrosTest, AssignOrReturnMovesTheValueOrLeaves) {
  EXPECT_EQ(*SumOfTwo(true, true), 10);
  EXPECT_EQ(SumOfTwo(false, true).status(), absl::AbortedError("no int"));
  EXPECT_EQ(SumOfTwo(true, false).status(), absl::AbortedError("no int"));
}

TEST(StatusMacrosTest, ReturnIfErrorLeavesWithTheFirstError) {
  EXPECT_TRUE(Both(absl::OkStatus(), absl::OkStatus()).ok());
  EXPECT_EQ(Both(absl::AbortedError("a"), absl::InternalError("b")),
            absl::AbortedError("a"));
  EXPECT_EQ(Both(absl::OkStatus(), absl::InternalError("b")),
            absl::InternalError("b"));
}

}  // namespace
}  // namespace msitd
