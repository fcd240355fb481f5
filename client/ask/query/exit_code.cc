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
    "an error of unknown kind",
    "the request is malformed; fix it",
    "no answer within --timeout",
    "no such run, tensor or comparison",
    "the name is taken",
    "not allowed",
    "a limit or a quota is reached",
    "change the state first",
    "lost to another request",
    "past the end",
    "the daemon does not know the call",
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
  add(kExitOk, "fine; of a comparison: all rows pass");
  add(kExitPolicyFailed,
      "a comparison failed its policy: a row fails or is unmatched, or none "
      "passes; a capture stored nothing");
  add(kExitUsage, "usage: a flag, an argument or a variable is wrong");
  add(kExitLocal, "a local file, stdout or the terminal");
  add(kExitPartial,
      "the answer is partial: ranks or records are lacking, or rows could not "
      "be compared, and nothing that is there fails; --allow-partial takes it; "
      "an import left something out");
  for (size_t i = 1; i < kMeanings.size(); ++i) {
    add(kExitDaemonBase + static_cast<int>(i),
        fmt::format("{}: {}", kStatusCodeNames[i], kMeanings[i]));
  }
  add(kExitExecFailed, "of exec: it failed before its command ran");
  add(kExitCannotRun, "of exec: the command cannot be run");
  add(kExitCommandNotFound, "of exec: there is no such command");
  add(kExitInterrupted, "interrupted");
  return out;
}

}  // namespace msitd::ask
