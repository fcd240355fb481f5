// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/python_package.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Returns the endpoint in the form that the package requires: HOST:PORT, or
// unix: and the socket itself.
std::string PackageEndpoint(const ask::ConnectionOptions& connection) {
  constexpr std::string_view kDns = "dns:///";
  const std::string& target = connection.target;
  return target.starts_with(kDns) ? target.substr(kDns.size()) : target;
}

}  // namespace

absl::StatusOr<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  const auto base = std::filesystem::temp_directory_path(error);
  std::string path = (base / "msitctl-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "cannot make a folder in {}", base.string());
  }
  return ScratchFolder(std::move(path));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::File(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

ask::Environment PackageEnvironment(const ask::ConnectionOptions& connection) {
  const auto given = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  return {{"MSITD_ENDPOINT", PackageEndpoint(connection)},
          {"MSITCTL_TLS", connection.tls ? "true" : "false"},
          {"MSITCTL_CA_FILE", given(connection.ca_file)},
          {"MSITCTL_CERT_FILE", given(connection.cert_file)},
          {"MSITCTL_KEY_FILE", given(connection.key_file)}};
}

absl::StatusOr<int> RunPackage(Invocation& invocation,
                               const std::vector<std::string>& words) {
  const ask::Interrupts::Handover handover(invocation.interrupts());
  return ask::RunCommand(words,
                         PackageEnvironment(invocation.options().connection));
}

}  // namespace msitd::msitctl
