// SPDX-License-Identifier: Apache-2.0
#include "client/web/method_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"

namespace msitd::web {
namespace {

TEST(MethodTableTest, NamesAreThoseOfTheServices) {
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  for (const WebMethod& method : WebMethods()) {
    const auto* const found =
        pool->FindMethodByName("msitd.v1." + std::string(method.name));
    ASSERT_NE(found, nullptr) << method.name;
    EXPECT_EQ(found->input_type(), method.request.GetDescriptor());
    EXPECT_EQ(found->output_type(), method.response.GetDescriptor());
    EXPECT_EQ(FindWebMethod(method.name), &method);
  }
}

TEST(MethodTableTest, ListsHaveRowsAndPages) {
  for (const WebMethod& method : WebMethods()) {
    const auto* const token =
        method.response.GetDescriptor()->FindFieldByName("next_page_token");
    EXPECT_EQ(token == nullptr, method.rows.empty()) << method.name;
    if (token == nullptr) continue;
    const auto* const rows = method.response.GetDescriptor()->FindFieldByName(
        std::string(method.rows));
    ASSERT_NE(rows, nullptr) << method.name;
    EXPECT_TRUE(rows->is_repeated());
    for (const char* field : {"page_size", "page_token"}) {
      EXPECT_NE(method.request.GetDescriptor()->FindFieldByName(field), nullptr)
          << method.name;
    }
  }
}

// A page that shows data must not be able to remove it.
TEST(MethodTableTest, OnlyThreeMethodsChangeSomething) {
  std::set<std::string_view> changing;
  for (const WebMethod& method : WebMethods()) {
    const std::string_view verb = method.name.substr(method.name.find('.') + 1);
    bool only_reads = false;
    for (const char* prefix : {"Get", "List", "Find", "Compute", "Summarize"}) {
      only_reads = only_reads || verb.starts_with(prefix);
    }
    if (!only_reads) changing.insert(method.name);
  }
  EXPECT_EQ(changing,
            (std::set<std::string_view>{"CaptureService.SetCapturePolicy",
                                        "ComparisonService.CancelComparison",
                                        "ComparisonService.CreateComparison"}));
  // Its answer has the configuration of the daemon.
  EXPECT_EQ(FindWebMethod("NodeService.GetDiagnostics"), nullptr);
  for (const char* name : {"", "RunService.DeleteRun", "RunService", ".",
                           "RunService.ListRuns ", "runservice.listruns"}) {
    EXPECT_EQ(FindWebMethod(name), nullptr) << name;
  }
}

// The help of the verb and docs/cli_reference.md have this list.
TEST(MethodTableTest, CalledMethodsAreThoseOfTheTableAndTheStreams) {
  const std::vector<std::string> names = absl::StrSplit(CalledMethods(), ", ");
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names.size(), WebMethods().size() + 2);
  for (const std::string& name : names) {
    EXPECT_TRUE(FindWebMethod(name) != nullptr ||
                name == "ComparisonService.StreamComparisonRows" ||
                name == "TensorService.ReadTensor")
        << name;
  }
}

}  // namespace
}  // namespace msitd::web
