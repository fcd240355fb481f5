// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "daemon/service/call/admission.h"
#include "msitd/v1/archive_service.pb.h"
#include "msitd/v1/attachment_service.pb.h"
#include "msitd/v1/capture_service.pb.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/ingest_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::service {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Sets every string field, including those of nested messages, to the name of
// the field.
void Fill(Message& message, int depth = 0) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (field->is_repeated()) {
        fields.AddString(&message, field, std::string(field->name()));
      } else {
        fields.SetString(&message, field, std::string(field->name()));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 &&
               !field->is_repeated()) {
      fields.SetInt64(&message, field, 7);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
               !field->is_repeated() && depth < 1) {
      Fill(*fields.MutableMessage(&message, field), depth + 1);
    }
  }
}

// An empty target belongs to a call about the whole daemon.
const std::map<std::string, std::string> kTargets = {
    {"ArchiveService.ArchiveRun", "run url"},
    {"ArchiveService.RestoreRun", "run archived_run url"},
    {"ArchiveService.PruneArchive", "archived_run url"},
    {"ArchiveService.GetArchiveJob", "7"},
    {"ArchiveService.ListArchiveJobs", ""},
    {"ArchiveService.ListArchivedRuns", "name url"},
    {"AttachmentService.GetAttachment", "run name"},
    {"AttachmentService.ListAttachments", "run"},
    {"AttachmentService.DeleteAttachment", "run name"},
    {"AttachmentService.WriteAttachment", "run name"},
    {"AttachmentService.ReadAttachment", "run name"},
    {"CaptureService.GetCapturePolicy", "run"},
    {"CaptureService.SetCapturePolicy", "run"},
    {"CaptureService.GetCaptureCoverage", "run"},
    {"ComparisonService.CreateComparison", "name golden_run target_run"},
    {"ComparisonService.PlanComparison", "name golden_run target_run"},
    {"ComparisonService.JudgeComparison", "comparison"},
    {"ComparisonService.GetComparison", "comparison"},
    {"ComparisonService.ListComparisons", ""},
    {"ComparisonService.CancelComparison", "comparison"},
    {"ComparisonService.DeleteComparison", "comparison"},
    {"ComparisonService.ListComparisonRows", "comparison"},
    {"ComparisonService.StreamComparisonRows", "comparison"},
    {"ComparisonService.SummarizeComparisonRows", "comparison"},
    {"ComparisonService.AddRowMetrics", "comparison"},
    {"IngestService.WriteChunks", "run"},
    {"NodeService.GetCapabilities", ""},
    {"NodeService.GetNodeStatus", ""},
    {"NodeService.ListStreams", ""},
    {"NodeService.GetDiagnostics", ""},
    {"RunReaderService.DescribeRun", "run"},
    {"RunReaderService.ListCoordinates", "run"},
    {"RunReaderService.ScanTensors", "run"},
    {"RunReaderService.GetEntry", "name"},
    {"RunReaderService.ReadParts", "run"},
    {"RunReaderService.ListDigests", "run"},
    {"RunService.GetRun", "run"},
    {"RunService.ListRuns", ""},
    {"RunService.CreateRun", "name id"},
    {"RunService.SealRun", "run"},
    {"RunService.SetRunRetention", "run"},
    {"RunService.DeleteRun", "run"},
    {"TensorService.GetTensor", "name"},
    {"TensorService.ListTensors", "run"},
    {"TensorService.ReadTensor", "name"},
    {"TensorService.ReadTensors", "names"},
    {"TensorService.SummarizeTensors", "run"},
    {"TensorService.ComputeHistogram", "name"},
    {"TensorService.FindOrigin", "run"},
};

// Returns the message that contains the target. For an upload, this is the
// opening message.
const Message& Opening(const Message& request) {
  const FieldDescriptor* const open =
      request.GetDescriptor()->FindFieldByName("open");
  return open == nullptr ? request
                         : request.GetReflection()->GetMessage(request, open);
}

TEST(AuditTargetTest, EveryMethodNamesWhatItIsAbout) {
  const google::protobuf::FileDescriptor* const files[] = {
      v1::ArchiveJob::descriptor()->file(),
      v1::Attachment::descriptor()->file(),
      v1::CapturePolicy::descriptor()->file(),
      v1::Comparison::descriptor()->file(),
      v1::OpenStream::descriptor()->file(),
      v1::NodeStatus::descriptor()->file(),
      v1::Run::descriptor()->file(),
      v1::PartAddress::descriptor()->file(),
      v1::Tensor::descriptor()->file()};
  std::map<std::string, std::string> found;
  for (const auto* file : files) {
    const auto* service = file->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      const std::unique_ptr<Message> request(
          google::protobuf::MessageFactory::generated_factory()
              ->GetPrototype(method->input_type())
              ->New());
      Fill(*request);
      if (const FieldDescriptor* const open =
              request->GetDescriptor()->FindFieldByName("open")) {
        // The last field of a oneof has replaced the opening message.
        Fill(*request->GetReflection()->MutableMessage(request.get(), open));
      }
      found[std::string(service->name()) + "." + std::string(method->name())] =
          AuditTarget(Opening(*request));
    }
  }
  EXPECT_EQ(found, kTargets);
}

TEST(AuditTargetTest, SeveralTensorsAreCounted) {
  v1::ReadTensorsRequest request;
  request.add_names("a");
  EXPECT_EQ(AuditTarget(request), "a");
  request.add_names("b");
  request.add_names("c");
  EXPECT_EQ(AuditTarget(request), "a and 2 more");
}

TEST(AuditTargetTest, ARestoredRunThatKeepsItsNameIsNamed) {
  v1::RestoreRunRequest request;
  request.set_archived_run("r");
  EXPECT_EQ(AuditTarget(request), "r");
}

}  // namespace
}  // namespace msitd::service
