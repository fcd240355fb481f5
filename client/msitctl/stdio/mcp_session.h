// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/msitctl/stdio/captured_commands.h"

namespace msitd::msitctl {

// Maximum length of the text of an answer to a tool call.
inline constexpr size_t kMcpAnswerBytesMax = 4096;

// The Model Context Protocol over lines: JSON-RPC 2.0, one message a line, with
// tools only (https://modelcontextprotocol.io/specification/2025-06-18).
//
// The answer of a tool is a JSON object: `output` is the text that the command
// printed, `exit_code` its result. Names and texts of runs are therefore
// quoted. Thread-compatible.
class McpSession {
 public:
  using Runner = std::function<CapturedAnswer(const std::vector<std::string>&)>;

  // `allows_changes`: offers tools that start comparisons or record runs.
  McpSession(bool allows_changes, Runner run)
      : allows_changes_(allows_changes), run_(std::move(run)) {}

  // Returns the answer to a message, without a line feed; empty if it has none.
  std::string Answer(std::string_view line);

 private:
  const bool allows_changes_;
  const Runner run_;
};

}  // namespace msitd::msitctl
