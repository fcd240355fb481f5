// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/node/node_diag.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/print/file_sink.h"
#include "client/ask/print/printer.h"
#include "client/ask/query/paging.h"
#include "client/ask/text/text.h"
#include "client/msitctl/node/tar_archive.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Limits for the data that is requested.
constexpr int64_t kStreamsMax = 10'000;
constexpr int64_t kRunsMax = 10'000;
constexpr int64_t kTensorsOfRunMax = 1'000;
constexpr size_t kNamesMax = 100'000;
constexpr size_t kFileNameBytesMax = 64;

// A file of the archive, and its description.
struct DiagFile {
  std::string name;
  std::string summary;
  std::string content;
};

std::string Json(const google::protobuf::Message& message) {
  return ask::ToJson(message, /*indented=*/true, ask::PrintOptions()) + "\n";
}

// Names from the daemon are not trusted.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= kFileNameBytesMax &&
         name.front() != '.' && name.find('/') == std::string_view::npos &&
         ask::Printable(name) == name;
}

class Gatherer {
 public:
  Gatherer(Invocation& invocation, const DiagFlags& flags)
      : invocation_(invocation), flags_(flags) {}

  ask::Outcome Run() {
    MSITCTL_RETURN_IF_FAILED(AddOne("status.json", "node status",
                                    &Nodes::GetNodeStatus,
                                    v1::GetNodeStatusRequest()));
    MSITCTL_RETURN_IF_FAILED(AddOne("capabilities.json", "node capabilities",
                                    &Nodes::GetCapabilities,
                                    v1::GetCapabilitiesRequest()));
    MSITCTL_RETURN_IF_FAILED(AddStreams());
    MSITCTL_RETURN_IF_FAILED(AddRuns());
    return AddFilesOfDaemon();
  }

  const std::vector<DiagFile>& files() const { return files_; }

 private:
  using Nodes = v1::NodeService::Stub;

  template <typename Request, typename Response>
  ask::Outcome AddOne(std::string name, std::string summary,
                      ask::Connection::Method<Nodes, Request, Response> method,
                      const Request& request) {
    Response response;
    MSITCTL_RETURN_IF_FAILED(invocation_.Ask(method, request, response));
    files_.push_back({std::move(name), std::move(summary), Json(response)});
    return {};
  }

  ask::Outcome AddStreams() {
    v1::ListStreamsResponse all;
    v1::ListStreamsResponse page;
    MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
        invocation_, &Nodes::ListStreams, v1::ListStreamsRequest(), "streams",
        kStreamsMax,
        [&](const auto& row) {
          all.add_streams()->CopyFrom(static_cast<const v1::Stream&>(row));
        },
        page));
    files_.push_back({"streams.json", "the open streams", Json(all)});
    return {};
  }

  ask::Outcome AddRuns() {
    v1::ListRunsResponse all;
    v1::ListRunsResponse page;
    MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
        invocation_, &v1::RunService::Stub::ListRuns, v1::ListRunsRequest(),
        "runs", kRunsMax,
        [&](const auto& row) {
          v1::Run& run = *all.add_runs();
          run.CopyFrom(static_cast<const v1::Run&>(row));
          // Labels may contain any text of the users.
          run.clear_labels();
        },
        page));
    files_.push_back({"runs.json", "the runs, without labels", Json(all)});
    return flags_.tensor_names ? AddTensorNames(all) : ask::Outcome();
  }

  ask::Outcome AddTensorNames(const v1::ListRunsResponse& runs) {
    std::string names;
    size_t count = 0;
    for (const v1::Run& run : runs.runs()) {
      if (count >= kNamesMax) break;
      v1::ListTensorsRequest request;
      request.set_run(run.name());
      v1::ListTensorsResponse page;
      MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
          invocation_, &v1::TensorService::Stub::ListTensors, request,
          "tensors", kTensorsOfRunMax,
          [&](const auto& row) {
            names += static_cast<const v1::Tensor&>(row).name() + "\n";
            ++count;
          },
          page));
    }
    files_.push_back(
        {"tensors.txt",
         fmt::format("names of tensors, at most {} of a run", kTensorsOfRunMax),
         std::move(names)});
    return {};
  }

  ask::Outcome AddFilesOfDaemon() {
    v1::Diagnostics found;
    MSITCTL_RETURN_IF_FAILED(invocation_.Ask(
        &Nodes::GetDiagnostics, v1::GetDiagnosticsRequest(), found));
    for (const v1::Diagnostics::File& file : found.files()) {
      if (!IsFileName(file.name())) continue;
      files_.push_back({file.name(), file.summary(), file.content()});
    }
    return {};
  }

  Invocation& invocation_;
  const DiagFlags& flags_;
  std::vector<DiagFile> files_;
};

std::string Contents(const std::vector<DiagFile>& files, bool tensor_names) {
  std::string out =
      "Diagnostics of a daemon, written by `msitctl node diag`. They contain "
      "no bytes of\n"
      "tensors";
  out += tensor_names ? ", but names of tensors.\n\n"
                      : " and no names of tensors.\n\n";
  for (const DiagFile& file : files) {
    out += fmt::format("{:<20} {}\n", file.name, ask::Printable(file.summary));
  }
  return out;
}

}  // namespace

ask::Outcome WriteDiagnostics(Invocation& invocation, const DiagFlags& flags) {
  const std::time_t now = std::time(nullptr);
  const std::string folder =
      fmt::format("msitd-diag-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string path = flags.out.empty() ? folder + ".tar" : flags.out;
  const ask::Interrupts::Hold hold(invocation.interrupts());
  // Opened first, so that an unwritable path is reported at once.
  auto sink = ask::FileSink::Open(
      path, invocation.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return ask::LocalError(Message(sink.status()));
  Gatherer gatherer(invocation, flags);
  MSITCTL_RETURN_IF_FAILED(gatherer.Run());
  const std::string contents = Contents(gatherer.files(), flags.tensor_names);
  TarArchive archive(now);
  archive.Add(folder + "/README.txt", contents);
  for (const DiagFile& file : gatherer.files()) {
    archive.Add(folder + "/" + file.name, file.content);
  }
  if (absl::Status status = sink->Write(archive.Finish()); !status.ok()) {
    return ask::LocalError(Message(status));
  }
  if (absl::Status status = sink->Commit(); !status.ok()) {
    return ask::LocalError(Message(status));
  }
  fmt::print(stderr, "{}\nmsitctl: wrote {}\n", contents, ask::Printable(path));
  return {};
}

}  // namespace msitd::msitctl
