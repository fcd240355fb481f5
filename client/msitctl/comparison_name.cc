// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/comparison_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <system_error>

#include "client/ask/fanout/comparison_names.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.grpc.pb.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The digits to which a daemon pads the number in a name.
constexpr size_t kDigits = 6;
// How far back a name such as `-2` may reach.
constexpr uint64_t kBackMax = 1000;

std::optional<uint64_t> ToNumber(std::string_view digits) {
  uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::string Padded(const std::string& name) {
  if (!name.starts_with("c-") || name.size() >= kDigits + 2) return name;
  const std::optional<uint64_t> number =
      ToNumber(std::string_view(name).substr(2));
  return number.has_value() ? fmt::format("c-{:0{}}", *number, kDigits) : name;
}

// Returns 1 for the newest comparison, 2 for the one before it. Nothing if the
// text does not count from the newest.
std::optional<uint64_t> BackOf(std::string_view name) {
  if (name == "latest") return 1;
  if (!name.starts_with("-")) return std::nullopt;
  const std::optional<uint64_t> back = ToNumber(name.substr(1));
  return back.value_or(0) == 0 ? std::nullopt : back;
}

ask::Outcome FindNewest(Invocation& invocation, const std::string& text,
                        uint64_t back, std::string& name) {
  if (invocation.node_fanout() != nullptr) {
    return ask::UsageError(
        fmt::format("\"{}\" supports a single daemon only; to list the "
                    "comparisons of all: msitctl compare list",
                    text));
  }
  if (back > kBackMax) {
    return ask::UsageError(
        fmt::format("\"{}\" is more than {} back", text, kBackMax));
  }
  std::deque<std::string> newest;
  v1::ListComparisonsRequest request;
  request.set_page_size(1000);
  do {
    v1::ListComparisonsResponse page;
    MSITCTL_RETURN_IF_FAILED(invocation.Ask(
        &v1::ComparisonService::Stub::ListComparisons, request, page));
    for (const v1::Comparison& comparison : page.comparisons()) {
      newest.push_back(comparison.name());
      if (newest.size() > back) newest.pop_front();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (newest.size() < back) {
    return ask::UsageError(
        newest.empty()
            ? "there is no comparison yet; to make one: msitctl compare run "
              "GOLDEN TARGET"
            : fmt::format("\"{}\": there are only {} comparisons", text,
                          newest.size()));
  }
  name = newest.front();
  return {};
}

}  // namespace

ask::Outcome CompleteComparisonName(Invocation& invocation, std::string& name) {
  if (const std::optional<uint64_t> back = BackOf(name)) {
    const std::string text = name;
    return FindNewest(invocation, text, *back, name);
  }
  if (name.find('@') == std::string::npos) {
    name = Padded(name);
    return {};
  }
  absl::StatusOr<std::vector<ask::NodeComparison>> parts =
      ask::SplitNames(name);
  if (!parts.ok()) return {};
  for (ask::NodeComparison& part : *parts) part.name = Padded(part.name);
  name = ask::JoinNames(*parts);
  return {};
}

}  // namespace msitd::msitctl
