// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/shm/local_endpoint.h"

#include <sys/stat.h>

namespace msitd::libmsit {
namespace {

constexpr std::string_view kIngestSocket = "ingest.sock";
constexpr std::string_view kGrpcSocket = "msitd.sock";

std::string In(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

bool IsSocket(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::optional<LocalEndpoint> ParseLocalEndpoint(std::string_view endpoint) {
  std::string_view path = endpoint;
  if (path.starts_with("unix:")) path.remove_prefix(5);
  if (path.starts_with("//")) path.remove_prefix(2);
  const bool is_path = path.size() != endpoint.size() || path.starts_with('/');
  if (!is_path || path.empty()) return std::nullopt;
  const size_t slash = path.rfind('/');
  const std::string_view name = path.substr(slash + 1);
  const std::string_view directory =
      slash == std::string_view::npos ? "." : path.substr(0, slash);
  const std::string ingest = In(directory, kIngestSocket);
  const std::string grpc = In(directory, kGrpcSocket);
  if (name == kIngestSocket) return LocalEndpoint{ingest, "unix:" + grpc};
  if (name == kGrpcSocket) {
    return LocalEndpoint{IsSocket(ingest) ? ingest : "", "unix:" + grpc};
  }
  if (name.ends_with(".sock") && !IsDirectory(std::string(path))) {
    return LocalEndpoint{"", std::string("unix:").append(path)};
  }
  const std::string ingest_inside = In(path, kIngestSocket);
  const std::string grpc_inside = In(path, kGrpcSocket);
  const bool shares = IsSocket(ingest_inside) || !IsSocket(grpc_inside);
  return LocalEndpoint{shares ? ingest_inside : "", "unix:" + grpc_inside};
}

}  // namespace msitd::libmsit
