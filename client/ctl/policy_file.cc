// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/policy_file.h"

#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

absl::StatusOr<v1::Policy> ParseJson(std::string_view text) {
  v1::Policy policy;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &policy);
  if (status.ok()) return policy;
  return MakeStatus(
      absl::StatusCode::kInvalidArgument, "is no JSON of a policy: {}",
      std::string_view(status.message().data(), status.message().size()));
}

absl::StatusOr<v1::Policy> ParseLines(std::string_view text) {
  v1::Policy policy;
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trim(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    auto rule = ParseRule(line);
    if (!rule.ok()) {
      return Annotate(rule.status(), fmt::format("line {}", line_number));
    }
    *policy.add_rules() = *std::move(rule);
  }
  return policy;
}

struct FileCloser {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

}  // namespace

absl::StatusOr<v1::Policy::Rule> ParseRule(std::string_view text) {
  const size_t colon = text.rfind(':');
  v1::Policy::Rule rule;
  if (colon != std::string_view::npos) {
    rule.set_op_pattern(std::string(Trim(text.substr(0, colon))));
    rule.set_predicate(std::string(Trim(text.substr(colon + 1))));
  }
  if (rule.op_pattern().empty() || rule.predicate().empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not PATTERN: PREDICATE", text);
  }
  return rule;
}

absl::StatusOr<v1::Policy> ParsePolicy(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  return trimmed.starts_with('{') ? ParseJson(trimmed) : ParseLines(text);
}

absl::StatusOr<v1::Policy> ReadPolicyFile(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, "read " + path);
  std::string text;
  char buffer[4096];
  while (const size_t size =
             std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, size);
    if (text.size() > kPolicyBytesMax) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} has more than {} bytes", path, kPolicyBytesMax);
    }
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, "read " + path);
  auto policy = ParsePolicy(text);
  return policy.ok() ? policy : Annotate(policy.status(), path);
}

}  // namespace msitd::ctl
