// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/exit_code.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "protos/base/code_name.h"

namespace msitd::ask {
namespace {

// In the order of the gRPC codes.
constexpr std::array<const char*, kStatusCodeNames.size()> kMeanings = {
    "never used: success is 0",
    "the call or the comparison was cancelled",
    "an unknown error",
    "the request is malformed",
    "no answer within --timeout",
    "no such run, tensor or comparison",
    "the name is already in use",
    "not allowed",
    "a limit or a quota is reached",
    "the current state does not allow the call",
    "aborted because of a concurrent request",
    "out of range",
    "the daemon does not support the call",
    "a bug in the daemon",
    "no daemon, or one that is starting or stopping",
    "stored bytes are damaged",
    "no valid credentials",
};

}  // namespace

int ExitCodeOf(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK
             ? kExitOk
             : kExitDaemonBase + static_cast<int>(code);
}

const char* CodeName(grpc::StatusCode code) {
  return StatusCodeName(static_cast<int64_t>(code));
}

std::string ExitCodeHelp() {
  std::string out;
  const auto add = [&out](int code, std::string_view meaning) {
    out += fmt::format("{:>4}  {}\n", code, meaning);
  };
  add(kExitOk, "success; for a comparison, all rows pass");
  add(kExitPolicyFailed,
      "a comparison does not pass (a row fails or is unmatched, or no row "
      "passes), a capture stored nothing, or `run origin` found a tensor");
  add(kExitUsage, "a flag, an argument or a variable is wrong");
  add(kExitLocal, "an error of a local file, stdout or the terminal");
  add(kExitPartial,
      "the result is partial: ranks or records are missing or rows could not "
      "be compared, and no row fails (accepted by --allow-partial), or an "
      "import skipped something");
  for (size_t i = 1; i < kMeanings.size(); ++i) {
    add(kExitDaemonBase + static_cast<int>(i),
        fmt::format("{}: {}", kStatusCodeNames[i], kMeanings[i]));
  }
  add(kExitExecFailed, "exec: failed before its command ran");
  add(kExitCannotRun, "exec: the command cannot be run");
  add(kExitCommandNotFound, "exec: there is no such command");
  add(kExitInterrupted, "interrupted");
  return out;
}

}  // namespace msitd::ask
