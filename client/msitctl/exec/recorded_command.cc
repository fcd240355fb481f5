// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/recorded_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "client/ask/query/child_command.h"
#include "client/ask/query/exit_code.h"
#include "client/foreign/write/writer/json_writer.h"
#include "client/msitctl/exec/exec_messages.h"
#include "client/msitctl/exec/exec_site.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Returns the pair with an absolute path, for a process in another folder.
std::string WithAbsolute(const std::string& pair) {
  const size_t equals = pair.find('=');
  return pair.substr(0, equals + 1) +
         std::filesystem::absolute(pair.substr(equals + 1)).string();
}

// Returns the settings for the package msitd; see
// client/python/msitd/_exec/settings.py.
std::string SettingsOf(const ExecFlags& flags, const std::string& variation,
                       const ExecSite& site) {
  write::JsonWriter out(0);
  const auto list = [&out](std::string_view name,
                           const std::vector<std::string>& texts) {
    out.Key(name).BeginList();
    for (const std::string& text : texts) out.Text(text);
    out.EndList();
  };
  out.BeginObject().Field("folder", site.folder());
  out.Field("variation", variation);
  out.Field("level", flags.level).Field("stack", flags.stack);
  out.Key("weights").Bool(flags.weights);
  out.Key("gradients").Bool(flags.gradients);
  out.Key("aliases").Bool(flags.aliases);
  list("inject", flags.inject);
  out.Field("inject_what", flags.inject_what);
  out.Field("inject_rank", int64_t{flags.inject_rank});
  list("ops", flags.ops);
  std::vector<std::string> paths;
  for (const std::string& pair : flags.map_paths) {
    paths.push_back(WithAbsolute(pair));
  }
  list("map_path", paths);
  list("map_device", flags.map_devices);
  return out.EndObject().Take();
}

// Returns the runs that were sealed.
std::vector<std::string> Seal(ask::Connection& connection,
                              const std::vector<std::string>& runs) {
  std::vector<std::string> sealed;
  for (const std::string& run : runs) {
    v1::SealRunRequest seal;
    seal.set_run(run);
    v1::Run ignored;
    const ask::Outcome done =
        connection.Ask(&v1::RunService::Stub::SealRun, seal, ignored);
    if (done.ok()) {
      sealed.push_back(run);
    } else {
      ExecNote(fmt::format("{} was not sealed: {}", run, done.error));
    }
  }
  return sealed;
}

ask::Environment ChildEnvironment(const ExecFlags& flags,
                                  const std::string& run,
                                  const std::string& variation,
                                  const ExecDaemon& daemon,
                                  const ExecSite& site) {
  const char* const before = std::getenv("PYTHONPATH");
  const bool has_others = before != nullptr && *before != '\0';
  ask::Environment out = {
      {"MSITD_RUN", run},
      {"MSITD_ENDPOINT", daemon.record_endpoint},
      {"MSITCTL_ENDPOINT", daemon.endpoint},
      {"MSITD_EXEC", SettingsOf(flags, variation, site)},
      {"PYTHONPATH", has_others ? fmt::format("{}:{}", site.folder(), before)
                                : site.folder()},
  };
  return out;
}

// Returns the outcome of a command that could not be started.
ask::Outcome NotStarted(const absl::Status& status) {
  std::string message(Message(status));
  if (absl::IsNotFound(status)) {
    return {ask::kExitCommandNotFound, std::move(message)};
  }
  const bool cannot = absl::IsPermissionDenied(status) ||
                      absl::IsFailedPrecondition(status) ||
                      absl::IsInvalidArgument(status);
  return {cannot ? ask::kExitCannotRun : ask::kExitExecFailed,
          std::move(message)};
}

// Prints why nothing was recorded, unless that was printed already.
void TellWhyNothing(const ExecSite& site) {
  if (!site.WasUsed()) {
    ExecNote(
        "nothing was recorded: the command ran no Python, or one that ignores "
        "PYTHONPATH");
  } else if (!site.HasFailed()) {
    ExecNote("nothing was recorded: no torch module was called");
  }
}

}  // namespace

ask::Outcome RunRecorded(Invocation& invocation, const ExecFlags& flags,
                         const std::string& run, const std::string& variation,
                         ExecDaemon& daemon, RecordedCommand& recorded) {
  auto site = ExecSite::Make();
  if (!site.ok()) return ExecFailure(std::string(Message(site.status())));
  const ask::Environment environment =
      ChildEnvironment(flags, run, variation, daemon, *site);
  const auto ended = [&] {
    const ask::Interrupts::Handover handover(invocation.interrupts());
    return ask::RunCommand(flags.words, environment);
  }();
  if (!ended.ok()) return NotStarted(ended.status());
  recorded = {.runs = site->Runs(),
              .exit_code = *ended,
              .is_varied = variation.empty() || site->WasVaried(),
              .has_failed = site->HasFailed()};
  const std::vector<std::string> sealed =
      Seal(*daemon.connection, recorded.runs);
  if (!sealed.empty()) {
    ExecNote(fmt::format("recorded {}; to show it: msitctl run get {}",
                         fmt::join(sealed, ", "), sealed.front()));
  } else if (recorded.runs.empty()) {
    TellWhyNothing(*site);
  }
  if (!recorded.runs.empty()) daemon.is_store_ours = false;
  return {};
}

}  // namespace msitd::msitctl
