// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/launch.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr uint64_t kRoomBytesMin = uint64_t{2} << 30;

constexpr char kPreloadVariable[] = "LD_PRELOAD";

bool IsAllowed(char c) {
  constexpr std::string_view kOthers = "_-./=:,[]";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitCommand(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  std::vector<std::string> words;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) break;
    const std::string_view word =
        text.substr(0, std::min(text.find_first_of(kBlanks), text.size()));
    const bool is_first = words.empty();
    const auto wrong = std::find_if(word.begin(), word.end(), [&](char c) {
      return !IsAllowed(c) && (is_first || c != ';');
    });
    if (wrong != word.end()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "--exec: \"{}\" has a character other than letters, "
                        "digits and _-./=:,[]; put the command into a script",
                        word);
    }
    words.emplace_back(word);
    text.remove_prefix(word.size());
  }
  if (words.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--exec: the command is empty");
  }
  return words;
}

absl::Status CheckRoom(const std::string& folder) {
  std::filesystem::path there = AbsolutePath(folder);
  std::error_code error;
  while (there.has_relative_path() && !std::filesystem::exists(there, error)) {
    there = there.parent_path();
  }
  if (access(there.c_str(), W_OK) != 0) {
    return ErrnoStatus(errno, "write in " + there.string());
  }
  struct statvfs room = {};
  if (statvfs(there.c_str(), &room) != 0) {
    return ErrnoStatus(errno, there.string());
  }
  if (uint64_t{room.f_bavail} * room.f_frsize < kRoomBytesMin) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{}: the file system has less than 2 GiB left",
                      there.string());
  }
  return absl::OkStatus();
}

void Preload(const std::string& library, ask::Environment& environment) {
  const char* const before = std::getenv(kPreloadVariable);
  const bool has_others = before != nullptr && *before != '\0';
  environment[kPreloadVariable] =
      has_others ? fmt::format("{}:{}", library, before) : library;
}

}  // namespace msitd::msit_command
