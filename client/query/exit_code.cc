// SPDX-License-Identifier: Apache-2.0
#include "client/query/exit_code.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace msitd::ctl {
namespace {

struct CodeInfo {
  const char* name;
  const char* meaning;
};

// In the order of the gRPC codes.
constexpr std::array<CodeInfo, 17> kCodes = {{
    {"OK", "never used: success is 0"},
    {"CANCELLED", "the call or the comparison was cancelled"},
    {"UNKNOWN", "an error of unknown kind"},
    {"INVALID_ARGUMENT", "the request is malformed; fix it"},
    {"DEADLINE_EXCEEDED", "no answer within --timeout"},
    {"NOT_FOUND", "no such run, tensor or comparison"},
    {"ALREADY_EXISTS", "the name is taken"},
    {"PERMISSION_DENIED", "not allowed"},
    {"RESOURCE_EXHAUSTED", "a limit or a quota is reached"},
    {"FAILED_PRECONDITION", "change the state first"},
    {"ABORTED", "lost to another request"},
    {"OUT_OF_RANGE", "past the end"},
    {"UNIMPLEMENTED", "the daemon does not know the call"},
    {"INTERNAL", "a bug in the daemon"},
    {"UNAVAILABLE", "no daemon, or one that is starting or stopping"},
    {"DATA_LOSS", "stored bytes are damaged"},
    {"UNAUTHENTICATED", "no valid credentials"},
}};

}  // namespace

int ExitCodeOf(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK
             ? kExitOk
             : kExitDaemonBase + static_cast<int>(code);
}

const char* CodeName(grpc::StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < kCodes.size() ? kCodes[number].name : "UNKNOWN";
}

std::string ExitCodeHelp() {
  std::string out;
  const auto add = [&out](int code, std::string_view meaning) {
    out += fmt::format("{:>4}  {}\n", code, meaning);
  };
  add(kExitOk, "fine; of a comparison: all rows pass");
  add(kExitPolicyFailed,
      "a comparison failed its policy: a row fails or is unmatched, or none "
      "passes; a capture stored nothing");
  add(kExitUsage, "usage: a flag, an argument or a variable is wrong");
  add(kExitLocal, "a local file, stdout or the terminal");
  add(kExitPartial,
      "the answer is partial: a run lacks ranks of its world size, and nothing "
      "that is there fails; --allow-partial takes it; an import left "
      "something out");
  for (size_t i = 1; i < kCodes.size(); ++i) {
    add(kExitDaemonBase + static_cast<int>(i),
        fmt::format("{}: {}", kCodes[i].name, kCodes[i].meaning));
  }
  add(kExitExecFailed, "of exec: it failed before its command ran");
  add(kExitCannotRun, "of exec: the command cannot be run");
  add(kExitCommandNotFound, "of exec: there is no such command");
  add(kExitInterrupted, "interrupted");
  return out;
}

}  // namespace msitd::ctl
