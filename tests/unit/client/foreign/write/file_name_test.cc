// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/file_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::write {
namespace {

using ::testing::Not;
using ::testing::StartsWith;

TEST(FileNameTest, PlainPartsStay) {
  EXPECT_EQ(FileName({"encoder.layer.0", "0", "output", "1.0"}, ".npy"),
            "encoder.layer.0,0,output,1.0.npy");
  EXPECT_EQ(FileName({"a", ""}, ".pt"), "a,.pt");
}

TEST(FileNameTest, NothingLeavesTheFolderOrIsHidden) {
  EXPECT_EQ(FileName({".."}, ""), "%2e.");
  EXPECT_EQ(FileName({"../../etc/passwd"}, ""), "%2e.%2f..%2fetc%2fpasswd");
  EXPECT_EQ(FileName({"-rf"}, ""), "%2drf");
  EXPECT_EQ(FileName({"a\nb\x01 c,d~e%", "\xc3\xa4"}, ""),
            "a%0ab%01%20c%2cd%7ee%25,%c3%a4");
}

TEST(FileNameTest, NamesOfDevicesAreNotUsed) {
  EXPECT_EQ(FileName({"nul"}, ".npy"), "%6eul.npy");
  EXPECT_EQ(FileName({"com1.weight", "0"}, ""), "%63om1.weight,0");
  EXPECT_EQ(FileName({"CON.x"}, ""), "%43ON.x~3");
  EXPECT_EQ(FileName({"com", "1"}, ""), "com,1");
  EXPECT_EQ(FileName({"conv"}, ""), "conv");
}

TEST(FileNameTest, CaseIsInANumber) {
  EXPECT_EQ(FileName({"Linear"}, ".npy"), "Linear~1.npy");
  EXPECT_EQ(FileName({"lineaR"}, ""), "lineaR~20");
  EXPECT_EQ(FileName({"a.B-c0D"}, ""), "a.B-c0D~a");
}

TEST(FileNameTest, LongNamesAreCut) {
  const std::string one = FileName({std::string(1024, 'a'), "0"}, ".npy");
  const std::string other = FileName({std::string(1024, 'a'), "1"}, ".npy");
  EXPECT_EQ(one.size(), kFileNameBytesMax);
  EXPECT_NE(one, other);
  for (size_t shift = 0; shift < 3; ++shift) {
    const std::string op = std::string(shift, 'a') + std::string(500, '/');
    const std::string name = FileName({op}, "");
    const std::string kept = name.substr(0, name.find("~~"));
    EXPECT_EQ((kept.size() - shift) % 3, 0u) << name;
  }
}

TEST(FileNameTest, NamesOfOthersStayWhereTheyCan) {
  EXPECT_EQ(FileNameAsIs("Module.fc1.Linear.forward.0.input.0", ".pt"),
            "Module.fc1.Linear.forward.0.input.0.pt");
  EXPECT_EQ(FileNameAsIs("aten::add_", ".pt"), "aten::add_.pt");
  EXPECT_EQ(FileNameAsIs("..", ""), "%2e.");
  EXPECT_EQ(FileNameAsIs("a/b", ".pt"), "a%2fb.pt");
  EXPECT_THAT(FileNameAsIs("", ".pt"), Not(StartsWith("/")));
  EXPECT_LE(FileNameAsIs(std::string(999, 'a'), ".pt").size(),
            kFileNameBytesMax);
}

}  // namespace
}  // namespace msitd::write
