// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/capi/transport_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "client/libmsit/grpc/grpc_transport_abi.h"
#include "client/libmsit/shm/local_endpoint.h"
#include "client/libmsit/shm/shm_transport.h"
#include "protos/endpoint/endpoint_rule.h"
#include "protos/endpoint/personal_daemon.h"

namespace msitd::libmsit {
namespace {

bool IsRemoteEndpoint(std::string_view endpoint) {
  if (endpoint.starts_with("dns:")) return endpoint.size() > 4;
  const size_t colon = endpoint.rfind(':');
  return colon != std::string_view::npos && colon != 0 &&
         colon + 1 < endpoint.size() &&
         endpoint.find_first_not_of("0123456789", colon + 1) ==
             std::string_view::npos;
}

std::string GrpcLibraryPath() {
  if (const char* path = std::getenv("MSIT_GRPC_LIBRARY");
      path != nullptr && *path != '\0') {
    return path;
  }
  constexpr std::string_view kName = "libmsit_grpc.so";
  Dl_info here;
  if (::dladdr(reinterpret_cast<const void*>(&IsRemoteEndpoint), &here) == 0 ||
      here.dli_fname == nullptr) {
    return std::string(kName);
  }
  const std::string_view own = here.dli_fname;
  // Without a slash, npos + 1 is 0.
  const std::string folder(own.substr(0, own.rfind('/') + 1));
  // An installed libmsit is in a folder shared by all libraries of the system.
  // The libraries that it loads are in a folder of their own.
  if (std::string installed = folder + "msit/" + std::string(kName);
      ::access(installed.c_str(), R_OK) == 0) {
    return installed;
  }
  return folder + std::string(kName);
}

bool WantsTls(const endpoint::Surroundings& around) {
  return around.variable("MSITD_TLS") == "1" ||
         !around.variable("MSITD_CA_FILE").empty() ||
         !around.variable("MSITD_CERT_FILE").empty() ||
         !around.variable("MSITD_KEY_FILE").empty();
}

// Returns whether the process has loaded the shared library of gRPC.
bool HasGrpc() {
  const auto is_grpc = [](dl_phdr_info* library, size_t, void*) {
    const std::string_view path = library->dlpi_name;
    return path.substr(path.rfind('/') + 1).starts_with("libgrpc.so") ? 1 : 0;
  };
  return ::dl_iterate_phdr(+is_grpc, nullptr) != 0;
}

Status MakeGrpcTransport(
    const std::string& target,
    std::unique_ptr<Transport, TransportDestroyer>* transport) {
  const std::string path = GrpcLibraryPath();
  const bool is_grpc_ours = !HasGrpc();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return {MSIT_ERROR_NO_TRANSPORT, reason == nullptr ? path : reason};
  }
  const auto make = reinterpret_cast<GrpcTransportMaker>(
      ::dlsym(library, kGrpcTransportMakerName));
  if (make == nullptr) {
    return {MSIT_ERROR_NO_TRANSPORT,
            path + " has a different version: it has no " +
                kGrpcTransportMakerName};
  }
  transport->reset(make(target.c_str(), is_grpc_ours));
  if (*transport == nullptr) {
    return {MSIT_ERROR_NO_MEMORY, "not enough memory for the transport"};
  }
  return {};
}

}  // namespace

Status FindDaemon(std::string_view given, std::chrono::microseconds timeout,
                  const InterruptCheck& interrupt, std::string* out) {
  using Origin = endpoint::Choice::Origin;
  const auto around = endpoint::Surroundings::OfProcess();
  endpoint::Choice choice = endpoint::ChooseEndpoint(given, around);
  if (choice.origin == Origin::kNone) {
    return {MSIT_ERROR_UNAVAILABLE, std::move(choice.problem)};
  }
  if (choice.origin != Origin::kPersonal) {
    *out = std::move(choice.endpoint);
    return {};
  }
  if (choice.is_default && WantsTls(around)) {
    *out = "127.0.0.1:7741";
    return {};
  }
  endpoint::StartOptions how;
  if (!choice.is_default) how.start = endpoint::Start::kNamed;
  how.timeout = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  if (interrupt) {
    how.is_interrupted = [&interrupt] { return interrupt(); };
  }
  endpoint::Started started =
      endpoint::EnsurePersonalDaemon(choice.endpoint, how, around);
  if (!started.problem.empty()) {
    return {MSIT_ERROR_UNAVAILABLE, std::move(started.problem)};
  }
  *out = std::move(choice.endpoint);
  return {};
}

Status MakeTransport(
    std::string_view endpoint,
    std::unique_ptr<Transport, TransportDestroyer>* transport) {
  if (auto local = ParseLocalEndpoint(endpoint)) {
    if (local->ingest_socket.empty()) {
      return MakeGrpcTransport(local->grpc_target, transport);
    }
    transport->reset(new ShmTransport(std::move(local->ingest_socket)));
    return {};
  }
  if (IsRemoteEndpoint(endpoint)) {
    return MakeGrpcTransport(std::string(endpoint), transport);
  }
  return InvalidArgument(
      "endpoint `" + std::string(endpoint) +
      "` is not host:port, dns:///name:port, unix:/path or /path");
}

}  // namespace msitd::libmsit
