// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/ask/query/endpoint.h"
#include "client/msitctl/exec/exec_messages.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kSocketName = "/msitd.sock";

// Returns the endpoint to which clients record, for a daemon that is queried at
// `endpoint`.
std::string RecordEndpoint(const std::string& endpoint) {
  std::string_view path = endpoint;
  if (path.starts_with(kUnixPrefix)) path.remove_prefix(kUnixPrefix.size());
  if (!path.starts_with('/')) return endpoint;
  if (path.ends_with(kSocketName)) path.remove_suffix(kSocketName.size());
  return fmt::format("{}{}", kUnixPrefix, path);
}

absl::Status Reach(ask::Connection& connection) {
  v1::ListRunsRequest request;
  request.set_page_size(1);
  v1::ListRunsResponse response;
  const ask::Outcome outcome =
      connection.Ask(&v1::RunService::Stub::ListRuns, request, response);
  if (outcome.ok()) return absl::OkStatus();
  return absl::UnavailableError(outcome.error);
}

std::string StoreOf(std::string run) {
  std::replace(run.begin(), run.end(), '/', '_');
  return "msitd-" + run;
}

ask::Outcome Connect(const std::string& endpoint, Invocation& invocation,
                     ExecDaemon& target) {
  InvocationOptions options = invocation.options();
  options.nodes.clear();
  options.connection = {};
  options.connection.endpoint = target.endpoint = endpoint;
  target.record_endpoint = RecordEndpoint(endpoint);
  options.connection.connect_timeout =
      invocation.options().connection.connect_timeout;
  const auto parsed = ask::ParseEndpoint(endpoint);
  if (!parsed.ok()) return ExecFailure(std::string(Message(parsed.status())));
  options.connection.target = *parsed;
  target.own = std::make_unique<Invocation>(
      std::move(options), invocation.interrupts(), invocation.out());
  target.connection = target.own.get();
  return {};
}

ask::Outcome StartPrivate(Invocation& invocation, const ExecFlags& flags,
                          const std::string& run, ExecDaemon& target) {
  ask::PrivateDaemonOptions daemon;
  target.store = flags.data_dir.empty() ? StoreOf(run) : flags.data_dir;
  // The store may contain the runs of an earlier command.
  target.is_store_ours =
      flags.data_dir.empty() && !std::filesystem::exists(target.store);
  daemon.kept_store = target.store;
  auto started = ask::PrivateDaemon::Start(daemon, invocation.interrupts());
  if (!started.ok()) return ExecFailure(std::string(Message(started.status())));
  target.daemon = *std::move(started);
  return Connect(target.daemon->endpoint(), invocation, target);
}

// Returns whether the daemon of the user would record, but must be allowed to
// start. A daemon that ends with the command needs no permission.
bool LacksPermission(const ask::ConnectionOptions& options) {
  const auto around = endpoint::Surroundings::OfProcess();
  return !options.personal_dir.empty() &&
         options.start == endpoint::Start::kAuto &&
         around.variable("MSITD_START").empty() &&
         !endpoint::IsListening(options.personal_dir) &&
         !endpoint::WhyNotStart(options.start, around).empty();
}

}  // namespace

ExecDaemon::~ExecDaemon() {
  daemon.reset();
  std::error_code ignored;
  if (is_store_ours) std::filesystem::remove_all(store, ignored);
}

ask::Outcome FindExecDaemon(Invocation& invocation, const ExecFlags& flags,
                            const std::string& run, ExecDaemon& target) {
  if (flags.is_private || !flags.data_dir.empty()) {
    return StartPrivate(invocation, flags, run, target);
  }
  const ask::ConnectionOptions& options = invocation.options().connection;
  if (LacksPermission(options)) {
    MSITCTL_RETURN_IF_FAILED(StartPrivate(invocation, flags, run, target));
    ExecNote(
        fmt::format("no msitd runs on this machine; this command starts one "
                    "that records into {}; to record into a store of your own "
                    "instead, which msitctl finds: MSITD_START=1",
                    target.store));
    return {};
  }
  target.endpoint = options.endpoint;
  target.record_endpoint = RecordEndpoint(options.endpoint);
  if (!options.personal_dir.empty()) {
    // The daemon may end before the command opens its first client.
    target.endpoint = target.record_endpoint = endpoint::kPersonal;
  }
  target.connection = &invocation;
  const absl::Status reached = Reach(invocation);
  return reached.ok() ? ask::Outcome()
                      : ExecFailure(std::string(Message(reached)));
}

}  // namespace msitd::msitctl
