// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::acl {
namespace {

// The smallest value that has room for the slices of one device.
constexpr uint64_t kMemoryBytesMin = uint64_t{1} << 20;
constexpr uint64_t kMemoryBytesMax = uint64_t{1} << 40;

constexpr int64_t kMaxBlockMs = 600'000;

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Sets `number` if the variable is set.
template <typename Number>
absl::Status Read(const char* name, Number min, Number max, Number& number) {
  const std::string_view text = Variable(name);
  if (text.empty()) return absl::OkStatus();
  const char* const end = text.data() + text.size();
  Number read = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, read);
  if (error != std::errc() || stop != end || read < min || read > max) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} is `{}`, not a number from {} to {}", name, text, min,
                      max);
  }
  number = read;
  return absl::OkStatus();
}

absl::StatusOr<IfExists> ReadIfExists() {
  constexpr const char* kName = "MSITD_ACL_IF_EXISTS";
  const std::string_view text = Variable(kName);
  if (text.empty() || text == "fail") return IfExists::kFail;
  if (text == "append") return IfExists::kAppend;
  if (text == "replace") return IfExists::kReplace;
  if (text == "new") return IfExists::kNew;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "{} is `{}`, not fail, append, replace or new", kName,
                    text);
}

}  // namespace

absl::StatusOr<Settings> ReadSettings() {
  Settings settings;
  settings.run = Variable("MSITD_RUN");
  MSITD_RETURN_IF_ERROR(
      Read<int32_t>("WORLD_SIZE", 1, kRankMax + 1, settings.world_size));
  MSITD_RETURN_IF_ERROR(Read<int32_t>("RANK", 0, kRankMax, settings.rank));
  MSITD_RETURN_IF_ERROR(Read("MSITD_ACL_BUFFER_BYTES", kMemoryBytesMin,
                             kMemoryBytesMax, settings.memory_bytes_max));
  int64_t max_block_ms = settings.max_block.count();
  MSITD_RETURN_IF_ERROR(
      Read<int64_t>("MSITD_ACL_MAX_BLOCK_MS", 0, kMaxBlockMs, max_block_ms));
  settings.max_block = std::chrono::milliseconds(max_block_ms);
  MSITD_ASSIGN_OR_RETURN(settings.if_exists, ReadIfExists());
  int32_t names_graphs = 0;
  MSITD_RETURN_IF_ERROR(Read<int32_t>("MSITD_ACL_GRAPHS", 0, 1, names_graphs));
  settings.names_graphs = names_graphs == 1;
  const std::string_view overflow = Variable("MSITD_ACL_OVERFLOW");
  if (overflow == "drop-newest") {
    settings.overflow = libmsit::OverflowMode::kDropNewest;
  } else if (!overflow.empty() && overflow != "block") {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "MSITD_ACL_OVERFLOW is `{}`, not block or drop-newest",
                      overflow);
  }
  return settings;
}

}  // namespace msitd::acl
