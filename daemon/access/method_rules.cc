// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/method_rules.h"

#include "protos/base/check.h"

namespace msitd::access {
namespace {

using Of = MethodRule::Of;
using Audit = MethodRule::Audit;

// Comparisons are queries, so readers may create them. Readers own the
// comparisons that they create.
constexpr MethodRule kRules[] = {
    // The archive belongs to the daemon, so its contents have no owner.
    {"ArchiveService.ArchiveRun", Role::kWriter, Of::kRun, Audit::kChange},
    {"ArchiveService.RestoreRun", Role::kWriter, Of::kNobody, Audit::kChange},
    // Archived copies of deleted runs have no owner.
    {"ArchiveService.PruneArchive", Role::kAdmin, Of::kNobody, Audit::kChange},
    {"ArchiveService.GetArchiveJob", Role::kReader, Of::kNobody, Audit::kNever},
    {"ArchiveService.ListArchiveJobs", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ArchiveService.ListArchivedRuns", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"AttachmentService.GetAttachment", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"AttachmentService.ListAttachments", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"AttachmentService.DeleteAttachment", Role::kWriter, Of::kRun,
     Audit::kChange},
    {"AttachmentService.WriteAttachment", Role::kWriter, Of::kRun,
     Audit::kChange},
    {"AttachmentService.ReadAttachment", Role::kReader, Of::kNobody,
     Audit::kRead},
    {"CaptureService.GetCapturePolicy", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"CaptureService.SetCapturePolicy", Role::kWriter, Of::kRun,
     Audit::kChange},
    {"CaptureService.GetCaptureCoverage", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.CreateComparison", Role::kReader, Of::kNobody,
     Audit::kChange},
    {"ComparisonService.PlanComparison", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.JudgeComparison", Role::kReader, Of::kNobody,
     Audit::kChange},
    {"ComparisonService.GetComparison", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.ListComparisons", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.CancelComparison", Role::kReader, Of::kComparison,
     Audit::kChange},
    {"ComparisonService.DeleteComparison", Role::kReader, Of::kComparison,
     Audit::kChange},
    {"ComparisonService.ListComparisonRows", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.StreamComparisonRows", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.SummarizeComparisonRows", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"ComparisonService.AddRowMetrics", Role::kReader, Of::kComparison,
     Audit::kChange},
    {"IngestService.WriteChunks", Role::kWriter, Of::kRun, Audit::kChange},
    {"NodeService.GetCapabilities", Role::kReader, Of::kNobody, Audit::kNever},
    {"NodeService.GetNodeStatus", Role::kReader, Of::kNobody, Audit::kNever},
    {"NodeService.ListStreams", Role::kReader, Of::kNobody, Audit::kNever},
    // The result contains the configuration and the log of the daemon.
    {"NodeService.GetDiagnostics", Role::kAdmin, Of::kNobody, Audit::kRead},
    {"RunReaderService.DescribeRun", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunReaderService.ListCoordinates", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"RunReaderService.ScanTensors", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunReaderService.GetEntry", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunReaderService.ReadParts", Role::kReader, Of::kNobody, Audit::kRead},
    {"RunReaderService.ListDigests", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunService.GetRun", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunService.ListRuns", Role::kReader, Of::kNobody, Audit::kNever},
    {"RunService.CreateRun", Role::kWriter, Of::kNobody, Audit::kChange},
    {"RunService.SealRun", Role::kWriter, Of::kRun, Audit::kChange},
    {"RunService.SetRunRetention", Role::kWriter, Of::kRun, Audit::kChange},
    {"RunService.DeleteRun", Role::kWriter, Of::kRun, Audit::kChange},
    {"TensorService.GetTensor", Role::kReader, Of::kNobody, Audit::kNever},
    {"TensorService.ListTensors", Role::kReader, Of::kNobody, Audit::kNever},
    {"TensorService.ReadTensor", Role::kReader, Of::kNobody, Audit::kRead},
    {"TensorService.ReadTensors", Role::kReader, Of::kNobody, Audit::kRead},
    {"TensorService.SummarizeTensors", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"TensorService.ComputeHistogram", Role::kReader, Of::kNobody,
     Audit::kNever},
    {"TensorService.FindOrigin", Role::kReader, Of::kNobody, Audit::kNever},
};

}  // namespace

const MethodRule& RuleOf(std::string_view service, std::string_view method) {
  const MethodRule* found = nullptr;
  for (const MethodRule& rule : kRules) {
    const size_t dot = rule.method.find('.');
    if (rule.method.substr(0, dot) == service &&
        rule.method.substr(dot + 1) == method) {
      found = &rule;
    }
  }
  MSITD_CHECK(found != nullptr);
  return *found;
}

}  // namespace msitd::access
