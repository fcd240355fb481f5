// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/not_compared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/msit/compare/msit_columns.h"
#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

using ::msitd::testing::TempDir;
using ::testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class NotComparedTest : public ::testing::Test {
 protected:
  NotCompared Make() {
    auto made = NotCompared::Make(std::vector<std::string>(kColumnCount, "c"));
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // Returns the log.
  std::string Save(NotCompared& rest) {
    std::FILE* const file = std::fopen((folder_ / "log").c_str(), "w");
    Logger log("test", LogLevel::kInfo, file);
    const absl::Status saved = rest.Save(folder_.path(), "rest", log);
    EXPECT_TRUE(saved.ok()) << saved;
    std::fclose(file);
    return TextOf(folder_ / "log");
  }

  const TempDir folder_;
};

TEST_F(NotComparedTest, NothingIsNoFile) {
  NotCompared rest = Make();
  EXPECT_EQ(Save(rest), "");
  EXPECT_EQ(TextOf(folder_ / "rest.csv"), "");
}

TEST_F(NotComparedTest, OpsAreNamedWithTheirTokens) {
  NotCompared rest = Make();
  for (const int64_t token : {7, 3, 7}) {
    ASSERT_TRUE(rest.Add({.token = token,
                          .op = "Add",
                          .path = "/Add,inputs,0",
                          .reason = "no golden"})
                    .ok());
  }
  ASSERT_TRUE(rest.Add({.token = 3,
                        .is_golden = true,
                        .op = "Mul",
                        .call = 1,
                        .path = "/Mul",
                        .reason = "second"})
                  .ok());
  ASSERT_TRUE(rest.AddOmitted(1, "the row\n").ok());
  ASSERT_TRUE(rest.AddRow({.op = "", .path = "/file", .reason = "bad"}).ok());
  EXPECT_EQ(rest.omitted_count(), 1);
  const std::string log = Save(rest);
  EXPECT_THAT(log, HasSubstr("3 my tensors of Add are not compared in tokens "
                             "3, 7: no golden\n"));
  EXPECT_THAT(log,
              HasSubstr("1 golden tensors of Mul, dump 2 in a token, are not "
                        "compared in token 3: second\n"));
  EXPECT_THAT(log, HasSubstr("rest.csv\n"));
  const std::string gap(5, ',');
  const std::string text = TextOf(folder_ / "rest.csv");
  EXPECT_THAT(text, HasSubstr("\n,,," + gap + ",/file,"));
  // A path with a comma is quoted.
  EXPECT_THAT(text,
              HasSubstr("\n1,,the row\n3,,," + gap + ",\"/Add,inputs,0\","));
}

TEST_F(NotComparedTest, MoreThanTheLimitIsCounted) {
  NotCompared rest = Make();
  constexpr size_t kOps = 20000;
  for (size_t i = 0; i < NotCompared::kRowsMax + 5; ++i) {
    ASSERT_TRUE(rest.Add({.token = static_cast<int64_t>(i),
                          .op = "op" + std::to_string(i % kOps),
                          .path = "",
                          .reason = "r"})
                    .ok());
  }
  const std::string log = Save(rest);
  EXPECT_THAT(log, HasSubstr("(the first 100000 of 100005 rows)"));
  // 20 ops with 5 or 6 tensors are named.
  EXPECT_THAT(log, HasSubstr("of more than 9980 other ops are not compared"));
}

}  // namespace
}  // namespace msitd::msit_command
