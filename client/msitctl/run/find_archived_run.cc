// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/find_archived_run.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace msitd::msitctl {
namespace {

constexpr std::chrono::seconds kAnswerTimeMax{2};

// The daemon's answer about an interpretation.
enum class Found { kYes, kNo, kUnknown };

Found Look(Invocation& invocation, const ArchivedRunName& reading,
           ask::Connection::Clock::time_point deadline) {
  v1::ListArchivedRunsRequest request;
  // If there are several archives, each of them has the run.
  const size_t comma = reading.url.rfind(',');
  request.set_url(comma == std::string::npos ? reading.url
                                             : reading.url.substr(comma + 1));
  request.set_name(reading.run);
  v1::ListArchivedRunsResponse response;
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const ask::Interrupts::Hold hold(invocation.interrupts(), &context);
  const grpc::Status status =
      invocation.stub<v1::ArchiveService::Stub>().ListArchivedRuns(
          &context, request, &response);
  if (!status.ok()) return Found::kUnknown;
  const bool is_there =
      std::any_of(response.runs().begin(), response.runs().end(),
                  [&](const auto& run) { return run.name() == reading.run; });
  return is_there ? Found::kYes : Found::kNo;
}

}  // namespace

ask::Outcome FindArchivedRun(Invocation& invocation, const std::string& text,
                             ArchivedRunName& out) {
  const std::vector<ArchivedRunName> readings = ReadingsOf(text);
  if (readings.empty()) {
    return ask::UsageError(
        "name an archived run by the URL of its archive and its name: "
        "file:///DIRECTORY/RUN or s3://BUCKET/PREFIX/RUN");
  }
  out = readings.front();
  if (readings.size() == 1 || invocation.node_fanout() != nullptr) return {};
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  const auto deadline = std::min(ask::Connection::Clock::now() + kAnswerTimeMax,
                                 invocation.UnaryDeadline());
  for (const ArchivedRunName& reading : readings) {
    const Found found = Look(invocation, reading, deadline);
    if (found == Found::kYes) out = reading;
    if (found != Found::kNo) break;
  }
  return {};
}

}  // namespace msitd::msitctl
