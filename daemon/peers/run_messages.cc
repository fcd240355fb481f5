// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/run_messages.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/limits.h"
#include "protos/base/run_limits.h"
#include "protos/base/stream_coverage.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

template <typename... Args>
absl::Status Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kDataLoss, format,
                    std::forward<Args>(args)...);
}

// Returns nullopt if the time is before the epoch or does not fit.
std::optional<int64_t> ToNanoseconds(const google::protobuf::Timestamp& time) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  if (time.seconds() < 0 || time.nanos() < 0 || time.nanos() >= kNsPerSecond ||
      time.seconds() >=
          std::numeric_limits<int64_t>::max() / kNsPerSecond - 1) {
    return std::nullopt;
  }
  return time.seconds() * kNsPerSecond + time.nanos();
}

// Sets `out`; returns false for a negative number.
bool SetCount(int64_t from, uint64_t& out) {
  out = static_cast<uint64_t>(from);
  return from >= 0;
}

absl::Status SetCounters(const v1::DescribeRunResponse& description,
                         storage::RunCounters& out) {
  const v1::RunCounters& from = description.run().counters();
  const bool are_counts =
      SetCount(from.tensor_count(), out.tensor_count) &&
      SetCount(from.size_bytes(), out.payload_bytes) &&
      SetCount(from.duplicate_count(), out.duplicate_count) &&
      SetCount(from.conflict_count(), out.conflict_count) &&
      SetCount(from.dropped_count(), out.dropped_count) &&
      SetCount(from.truncated_count(), out.truncated_count) &&
      SetCount(from.expired_size_bytes(), out.expired_bytes) &&
      SetCount(from.missing_size_bytes(), out.missing_bytes) &&
      SetCount(from.unread_place_count(), out.unread_place_count) &&
      SetCount(from.value_count(), out.value_count) &&
      SetCount(from.document_count(), out.document_count) &&
      SetCount(from.statistics_count(), out.statistics_count) &&
      SetCount(from.dangling_count(), out.dangling_count) &&
      SetCount(description.headless_count(), out.headless_count);
  out.token_end = description.token_end();
  if (are_counts && out.token_end >= 0 && out.token_end <= kTokenMax + 1) {
    return absl::OkStatus();
  }
  return Wrong("a count of the run is out of its range");
}

}  // namespace

absl::StatusOr<storage::RunInfo> ToRunInfo(
    const v1::DescribeRunResponse& description) {
  const v1::Run& run = description.run();
  storage::RunInfo out;
  uint64_t id = 0;
  if (!absl::SimpleAtoi(
          description.run_id().substr(0, description.run_id().find('-')),
          &id)) {
    return Wrong("the id of the run is none");
  }
  out.id = storage::RunId{id};
  out.spec.name = run.name();
  out.spec.world_size = run.world_size();
  out.spec.owner = run.owner();
  out.spec.job = description.job();
  out.capture_policy = description.capture_policy();
  if (run.world_size() < 0 || run.world_size() > kRankMax + 1 ||
      run.labels().size() > kRunLabelsMax ||
      out.spec.job.size() > kJobBytesMax ||
      out.capture_policy.size() > kCapturePolicyBytesMax) {
    return Wrong("the run is none that a daemon takes");
  }
  for (const auto& [name, value] : run.labels()) {
    if (!IsRunLabel(name, value)) {
      return Wrong("a label of the run is too long");
    }
    out.spec.labels.emplace(name, value);
  }
  out.sealed = run.state() == v1::Run::SEALED;
  const std::optional<int64_t> created = ToNanoseconds(run.create_time());
  const std::optional<int64_t> sealed = ToNanoseconds(run.seal_time());
  if (!created.has_value() || !sealed.has_value()) {
    return Wrong("a time of the run is out of its range");
  }
  out.create_time_ns = *created;
  out.seal_time_ns = out.sealed ? *sealed : 0;
  out.retention.pinned = run.retention().pinned();
  MSITD_RETURN_IF_ERROR(SetCounters(description, out.counters));
  return out;
}

absl::StatusOr<storage::RankCoverage> ToCoverage(
    const v1::DescribeRunResponse::Coverage& coverage) {
  storage::RankCoverage out;
  out.rank = coverage.rank();
  out.stream_count = coverage.stream_count();
  out.total = {coverage.seen_count(), coverage.filtered_count(),
               coverage.dropped_count(), coverage.truncated_count(),
               coverage.degraded_count()};
  out.repeats = {coverage.repeated_count(), coverage.conflict_count(),
                 coverage.dangling_count(), coverage.claimed_count(),
                 coverage.checked_count(),  coverage.false_count()};
  if (out.rank < 0 || out.rank > kRankMax || !IsSound(out.total)) {
    return Wrong("the coverage of rank {} is none", out.rank);
  }
  return out;
}

absl::Status AddCoordinates(const v1::ListCoordinatesResponse& message,
                            std::vector<storage::Coordinate>& out) {
  for (const v1::ListCoordinatesResponse::Tokens& tokens : message.tokens()) {
    if (tokens.rank() < 0 || tokens.rank() > kRankMax ||
        tokens.device().empty() || tokens.device().size() > kDeviceBytesMax) {
      return Wrong("rank {} on device '{}' is none", tokens.rank(),
                   tokens.device());
    }
    if (out.size() + static_cast<size_t>(tokens.steps_size()) >
        kRemoteCoordinatesMax) {
      return Wrong("it has more than {} ranks and tokens",
                   kRemoteCoordinatesMax);
    }
    int64_t token = 0;
    for (const int64_t step : tokens.steps()) {
      if (step < 0 || step > kTokenMax || token + step > kTokenMax) {
        return Wrong("a token of rank {} is out of range", tokens.rank());
      }
      token += step;
      const bool goes_on =
          out.empty() || out.back().rank < tokens.rank() ||
          (out.back().rank == tokens.rank() &&
           (out.back().device != tokens.device() || out.back().token < token));
      if (!goes_on) {
        return Wrong("rank {}, token {} is out of order", tokens.rank(), token);
      }
      out.push_back({tokens.rank(), tokens.device(), token});
    }
  }
  return absl::OkStatus();
}

std::vector<v1::TensorFilter> ToFilters(const Selector& selector) {
  Selector asked = selector;
  std::vector<int32_t>& ranks = asked.ranks;
  std::erase_if(ranks,
                [](int32_t rank) { return rank < 0 || rank > kRankMax; });
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (TokenRange& range : asked.tokens) {
    range.first = std::max<int64_t>(range.first, 0);
  }
  std::erase_if(asked.tokens, [](const TokenRange& range) {
    return range.last < range.first || range.first > kTokenMax;
  });
  if ((ranks.empty() && !selector.ranks.empty()) ||
      (asked.tokens.empty() && !selector.tokens.empty())) {
    return {};
  }
  if (asked.devices.size() > Selector::kDevicesMax) asked.devices.clear();
  std::vector<v1::TensorFilter> out;
  const std::vector<int32_t> all = std::move(ranks);
  size_t begin = 0;
  do {
    const size_t end = std::min(all.size(), begin + Selector::kRanksMax);
    asked.ranks.assign(all.begin() + static_cast<ptrdiff_t>(begin),
                       all.begin() + static_cast<ptrdiff_t>(end));
    service::ToProto(asked, out.emplace_back());
    begin = end;
  } while (begin < all.size());
  return out;
}

}  // namespace msitd::peers
