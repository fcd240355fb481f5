// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

// The tools that `msitctl mcp` offers. Each is a command of msitctl.
namespace msitd::msitctl {

// An argument of a tool. All are texts.
struct McpArgument {
  std::string_view name;
  std::string_view description;
  bool is_required = false;
  // The flag that takes it. Empty for a positional argument.
  std::string_view flag = {};
  // Its value is a whole number.
  bool is_number = false;
};

struct McpTool {
  std::string_view name;
  std::string_view description;
  // The words of the command without arguments.
  std::vector<std::string> command;
  std::vector<McpArgument> arguments;
  // Starts a comparison or records a run.
  bool changes = false;
  // Prints JSON instead of a table.
  bool is_json = false;
};

// Maximum length of an argument.
inline constexpr size_t kMcpArgumentBytesMax = 1024;

// All tools. Lives as long as the process.
std::span<const McpTool> McpTools();

// Returns the words of the command for a call. `value_of` returns the text of
// an argument, empty if it is missing. The text of an argument is never
// interpreted as a flag.
//
// Errors: INVALID_ARGUMENT for an argument that is missing, too long, or
// invalid.
absl::StatusOr<std::vector<std::string>> McpWords(
    const McpTool& tool,
    absl::FunctionRef<std::string(std::string_view)> value_of);

}  // namespace msitd::msitctl
