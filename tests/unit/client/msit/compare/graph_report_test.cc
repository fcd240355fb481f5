// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/graph_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "client/msit/compare/msit_columns.h"
#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

using ::msitd::testing::TempDir;

ask::Cells RowOf(const std::string& my_path, const std::string& golden_dtype,
                 const std::string& reason) {
  ask::Cells cells(kColumnCount);
  cells[4] = golden_dtype;
  cells[9] = my_path;
  cells[11] = std::string("torch.float32");
  cells[23] = reason;
  return cells;
}

// Returns the ids and the paths of the rows.
std::vector<std::string> RowsIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::string field;
    for (std::istringstream in(line); std::getline(in, field, ',');) {
      fields.push_back(field);
    }
    out.push_back(fields[0] + " " + fields[1] + " " + fields[9]);
  }
  return out;
}

class GraphReportTest : public ::testing::Test {
 protected:
  GraphReport Make(bool is_compat) {
    auto report =
        GraphReport::Make(std::vector<std::string>(kColumnCount), is_compat);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  std::vector<std::string> Save(GraphReport& report,
                                const OpPlaces& places = {}) {
    int64_t first_id = 7;
    omitted_.clear();
    const auto path = report.Save(
        folder_.path(), "rows", places, first_id,
        [this](int64_t token, std::string_view line) {
          omitted_.push_back(std::to_string(token) + " " + std::string(line));
          return absl::OkStatus();
        });
    EXPECT_TRUE(path.ok()) << path.status();
    return RowsIn(*path);
  }

  const TempDir folder_;
  // The rows that the report omits.
  std::vector<std::string> omitted_;
};

TEST_F(GraphReportTest, RowsAreSortedByTimeAndNumberedByTheGraph) {
  GraphReport report = Make(/*is_compat=*/false);
  report.SetOp(1, "Add", "Add.Add.1.2.30");
  ASSERT_TRUE(report.Add(RowOf("a.30;x", "torch.float32", "")).ok());
  report.SetOp(0, "Zero", "B.Zero.1.2.50");
  ASSERT_TRUE(report.Add(RowOf("z.50;0", "torch.float32", "")).ok());
  ASSERT_TRUE(report.Add(RowOf("z.50;1", "torch.float32", "")).ok());
  report.SetOp(0, "One", "A.One.1.2.60");
  ASSERT_TRUE(report.Add(RowOf("o.60", "torch.float32", "")).ok());
  report.SetOp(0, "Add", "Add.Add.1.2.10");
  ASSERT_TRUE(report.Add(RowOf("a.10", "torch.float32", "")).ok());
  report.SetOp(0, "Mul", "Mul.Mul.1.2.20");
  ASSERT_TRUE(report.Add(RowOf("m.20", "torch.float32", "")).ok());
  const OpPlaces places = {{"Mul", 0}, {"Add", 1}};
  EXPECT_EQ(Save(report, places),
            (std::vector<std::string>{"0 11 a.10", "0 10 m.20", "1 12 a.30;x",
                                      "0 8 z.50;0", "0 9 z.50;1", "0 7 o.60"}));
  EXPECT_TRUE(omitted_.empty());
}

TEST_F(GraphReportTest, WhatMsitLeavesOutStays) {
  GraphReport report = Make(/*is_compat=*/false);
  report.SetOp(0, "Add", "Add");
  const std::string shapes = "data shape doesn't match.";
  ASSERT_TRUE(report.Add(RowOf("a.1", "torch.float32", shapes)).ok());
  ASSERT_TRUE(report.Add(RowOf("a.2", "torch.int8", "")).ok());
  EXPECT_EQ(Save(report).size(), 2);
}

TEST_F(GraphReportTest, CompatLeavesOutEverySecondRowOfInt8) {
  GraphReport report = Make(/*is_compat=*/true);
  report.SetOp(0, "Add", "Add");
  const std::string shapes = "data shape doesn't match.";
  ASSERT_TRUE(report.Add(RowOf("a.1", "torch.int8", "")).ok());
  ASSERT_TRUE(report.Add(RowOf("a.2", "torch.float32", shapes)).ok());
  ASSERT_TRUE(report.Add(RowOf("a.3", "torch.int8", "")).ok());
  ASSERT_TRUE(report.Add(RowOf("a.4", "torch.int8", "")).ok());
  ASSERT_TRUE(report.Add(RowOf("a.5", "torch.float32", "")).ok());
  EXPECT_EQ(Save(report), (std::vector<std::string>{"0 9 a.3", "0 11 a.5"}));
  ASSERT_EQ(omitted_.size(), 3);
  EXPECT_NE(omitted_[0].find("a.1"), std::string::npos);
  EXPECT_NE(omitted_[1].find("a.2"), std::string::npos);
  EXPECT_NE(omitted_[1].find(shapes), std::string::npos);
  EXPECT_NE(omitted_[2].find("a.4"), std::string::npos);
}

TEST_F(GraphReportTest, NameThatIsTakenGetsANumber) {
  int64_t id = 0;
  GraphReport report = Make(/*is_compat=*/false);
  const auto omit = [](int64_t, std::string_view) { return absl::OkStatus(); };
  EXPECT_EQ(*report.Save(folder_.path(), "rows", {}, id, omit),
            folder_ / "rows.csv");
  EXPECT_EQ(*report.Save(folder_.path(), "rows", {}, id, omit),
            folder_ / "rows_1.csv");
}

TEST_F(GraphReportTest, MoreRowsThanABufferComeBack) {
  GraphReport report = Make(/*is_compat=*/false);
  report.SetOp(0, "Add", "Add");
  constexpr int kRows = 20000;
  for (int i = kRows; i > 0; --i) {
    ASSERT_TRUE(report
                    .Add(RowOf("a." + std::to_string(100000 + i),
                               "torch.float32", std::string(100, 'x')))
                    .ok());
  }
  const std::vector<std::string> rows = Save(report);
  ASSERT_EQ(rows.size(), kRows);
  EXPECT_EQ(rows.front(), "0 20006 a.100001");
  EXPECT_EQ(rows.back(), "0 7 a.120000");
}

}  // namespace
}  // namespace msitd::msit_command
