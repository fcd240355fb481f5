// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/method_rules.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "msitd/v1/attachment_service.pb.h"
#include "msitd/v1/capture_service.pb.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/ingest_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::access {
namespace {

const google::protobuf::FileDescriptor* const kFiles[] = {
    v1::Attachment::descriptor()->file(),
    v1::CapturePolicy::descriptor()->file(),
    v1::Comparison::descriptor()->file(),
    v1::OpenStream::descriptor()->file(),
    v1::NodeStatus::descriptor()->file(),
    v1::Run::descriptor()->file(),
    v1::PartAddress::descriptor()->file(),
    v1::Tensor::descriptor()->file()};

TEST(MethodRulesTest, EveryMethodHasOne) {
  int count = 0;
  for (const auto* file : kFiles) {
    ASSERT_EQ(file->service_count(), 1) << file->name();
    const auto* service = file->service(0);
    for (int i = 0; i < service->method_count(); ++i, ++count) {
      const MethodRule& rule =
          RuleOf(service->name(), service->method(i)->name());
      EXPECT_GE(rule.role, Role::kReader) << rule.method;
    }
  }
  EXPECT_GE(count, 40);
}

TEST(MethodRulesTest, WhatAsksOnlyNeedsAReaderAndChangesNothing) {
  for (const auto* file : kFiles) {
    const auto* service = file->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string& name = service->method(i)->name();
      const bool asks =
          name.starts_with("Get") || name.starts_with("List") ||
          name.starts_with("Read") || name.starts_with("Stream") ||
          name.starts_with("Summarize") || name.starts_with("Find") ||
          name.starts_with("Compute") || name.starts_with("Plan") ||
          name.starts_with("Describe") || name.starts_with("Scan");
      const MethodRule& rule = RuleOf(service->name(), name);
      EXPECT_EQ(asks, rule.audit != MethodRule::Audit::kChange) << rule.method;
      if (asks) {
        EXPECT_EQ(rule.of, MethodRule::Of::kNobody) << rule.method;
        EXPECT_EQ(rule.role,
                  name == "GetDiagnostics" ? Role::kAdmin : Role::kReader);
      }
    }
  }
}

TEST(MethodRulesDeathTest, AMethodWithoutARuleIsNotServed) {
  EXPECT_DEATH(RuleOf("RunService", "RenameRun"), "");
}

}  // namespace
}  // namespace msitd::access
