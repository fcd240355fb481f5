// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/node_list.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "client/ask/query/endpoint.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

constexpr std::string_view kDns = "dns:///";
constexpr std::string_view kSlurm = "slurm:";
// Longer than the names of the largest clusters.
constexpr size_t kFileBytesMax = 1 << 20;

template <typename... Args>
absl::Status Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "{}",
                    fmt::format(format, std::forward<Args>(args)...));
}

absl::Status TooMany() { return Wrong("more than {} nodes", kNodesMax); }

// Splits at commas that are not in brackets.
absl::StatusOr<std::vector<std::string_view>> Split(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1 || (i == list.size() && depth != 0)) {
      return Wrong("\"{}\": the brackets are not balanced", list);
    }
    if (c != ',' || depth != 0) continue;
    std::string_view part = list.substr(begin, i - begin);
    begin = i + 1;
    while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) {
      part.remove_prefix(1);
    }
    while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) {
      part.remove_suffix(1);
    }
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

bool ReadNumber(std::string_view text, uint32_t& out) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && last == end;
}

// Returns the expansion of a bracket. Numbers are padded to the width of the
// first one of each range.
absl::StatusOr<std::vector<std::string>> ExpandRanges(std::string_view list) {
  std::vector<std::string> out;
  MSITD_ASSIGN_OR_RETURN(const auto parts, Split(list));
  for (const std::string_view part : parts) {
    const size_t dash = part.find('-');
    const std::string_view from = part.substr(0, dash);
    const std::string_view to =
        dash == std::string_view::npos ? from : part.substr(dash + 1);
    uint32_t first = 0;
    uint32_t last = 0;
    if (!ReadNumber(from, first) || !ReadNumber(to, last) || last < first) {
      return Wrong("\"{}\" is not a range of numbers", part);
    }
    if (last - first >= kNodesMax || out.size() > kNodesMax) return TooMany();
    for (uint64_t number = first; number <= last; ++number) {
      out.push_back(fmt::format("{:0{}}", number, from.size()));
    }
  }
  if (out.empty()) return Wrong("\"[{}]\" is empty", list);
  return out;
}

absl::Status ExpandHost(std::string_view text, std::vector<std::string>& out) {
  std::vector<std::string> heads = {""};
  while (!text.empty()) {
    const size_t open = text.find('[');
    for (std::string& head : heads) head += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find(']', open);
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<std::string> numbers,
        ExpandRanges(text.substr(open + 1, close - open - 1)));
    if (heads.size() * numbers.size() > kNodesMax) return TooMany();
    std::vector<std::string> longer;
    for (const std::string& head : heads) {
      for (const std::string& number : numbers) longer.push_back(head + number);
    }
    heads = std::move(longer);
    text.remove_prefix(close + 1);
  }
  if (out.size() + heads.size() > kNodesMax) return TooMany();
  out.insert(out.end(), heads.begin(), heads.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeAddress>> NodesOfJob(std::string_view port) {
  uint32_t number = kNodePort;
  if (!port.empty() &&
      (!ReadNumber(port, number) || number < 1 || number > 65535)) {
    return Wrong("slurm:{}: the port is not in 1..65535", port);
  }
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const char* const list = std::getenv(name);
    if (list == nullptr || *list == '\0') continue;
    const auto hosts = ExpandHosts(list);
    if (!hosts.ok()) return Annotate(hosts.status(), name);
    std::vector<NodeAddress> out;
    for (const std::string& host : *hosts) {
      out.push_back({fmt::format("{}:{}", host, number), ""});
    }
    return out;
  }
  return Wrong(
      "slurm: neither SLURM_JOB_NODELIST nor SLURM_NODELIST is set: this is "
      "not a Slurm job");
}

absl::StatusOr<std::vector<NodeAddress>> NodesOfName(std::string_view name) {
  // ParseEndpoint reports the error in the port.
  MSITD_RETURN_IF_ERROR(ParseEndpoint(name).status());
  const size_t colon = name.rfind(':');
  std::string host(name.substr(0, colon));
  const std::string port(name.substr(colon + 1));
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return MakeStatus(absl::StatusCode::kUnavailable, "{}{}: {}", kDns, name,
                      gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 &freeaddrinfo);
  std::vector<NodeAddress> out;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    const char* const form = at->ai_family == AF_INET6 ? "[{}]:{}" : "{}:{}";
    out.push_back({fmt::format(fmt::runtime(form), text, port), host});
  }
  // The order of the answer changes from call to call.
  std::sort(out.begin(), out.end(),
            [](const NodeAddress& a, const NodeAddress& b) {
              return a.endpoint < b.endpoint;
            });
  return out;
}

absl::StatusOr<std::vector<NodeAddress>> NodesOf(std::string_view part) {
  if (part.starts_with(kSlurm)) return NodesOfJob(part.substr(kSlurm.size()));
  if (part.starts_with(kDns)) return NodesOfName(part.substr(kDns.size()));
  if (part.find('@') != std::string_view::npos) {
    return Wrong("\"{}\": an endpoint in a list must not contain @", part);
  }
  MSITD_RETURN_IF_ERROR(ParseEndpoint(part).status());
  return std::vector<NodeAddress>{{std::string(part), ""}};
}

absl::Status Add(std::string_view list, std::vector<NodeAddress>& out) {
  MSITD_ASSIGN_OR_RETURN(const auto parts, Split(list));
  for (const std::string_view part : parts) {
    MSITD_ASSIGN_OR_RETURN(const auto nodes, NodesOf(part));
    for (const NodeAddress& node : nodes) {
      const bool is_there = std::any_of(
          out.begin(), out.end(), [&node](const NodeAddress& other) {
            return other.endpoint == node.endpoint;
          });
      if (!is_there) out.push_back(node);
    }
    if (out.size() > kNodesMax) return TooMany();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeAddress>> OrNone(
    std::vector<NodeAddress> nodes) {
  if (nodes.empty()) return Wrong("it names no node");
  return nodes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view list) {
  std::vector<std::string> out;
  MSITD_ASSIGN_OR_RETURN(const auto parts, Split(list));
  for (const std::string_view part : parts) {
    MSITD_RETURN_IF_ERROR(ExpandHost(part, out));
  }
  if (out.empty()) return Wrong("the list of nodes is empty");
  return out;
}

absl::StatusOr<std::vector<NodeAddress>> ParseNodes(std::string_view list) {
  std::vector<NodeAddress> out;
  MSITD_RETURN_IF_ERROR(Add(list, out));
  return OrNone(std::move(out));
}

absl::StatusOr<std::vector<NodeAddress>> ReadNodes(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::vector<NodeAddress> out;
  std::string line;
  size_t size = 0;
  while (std::getline(file, line)) {
    size += line.size() + 1;
    if (size > kFileBytesMax) {
      return Wrong("{} has more than {} bytes", path, kFileBytesMax);
    }
    if (const auto status =
            Add(std::string_view(line).substr(0, line.find('#')), out);
        !status.ok()) {
      return Annotate(status, path);
    }
  }
  if (!file.eof()) {
    return MakeStatus(absl::StatusCode::kNotFound, "read {}: {}", path,
                      std::generic_category().message(errno));
  }
  return OrNone(std::move(out));
}

}  // namespace msitd::ask
