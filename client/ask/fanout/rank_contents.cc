// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/rank_contents.h"

#include <functional>
#include <string>
#include <utility>

#include "client/ask/query/connection.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"

namespace msitd::ask {
namespace {

using Digest = v1::ListDigestsResponse::Digest;

// The finalizer of SplitMix64: every bit of the result depends on every bit of
// `value`.
uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Adds one device and token of a rank. Daemons list devices in the order in
// which they first received them, so the order must not count.
void AddDigest(const Digest& from, Digest& to) {
  const uint64_t at = Mixed(static_cast<uint64_t>(from.token())) ^
                      std::hash<std::string>()(from.device());
  to.set_record_count(to.record_count() + from.record_count());
  to.set_hash_low(to.hash_low() + Mixed(from.hash_low() ^ Mixed(at)));
  to.set_hash_high(to.hash_high() + Mixed(from.hash_high() + at));
}

// Reads one stream, until its end or the deadline of a call. `request` moves on
// with every message.
grpc::Status ReadDigests(Connection& node, v1::ListDigestsRequest& request,
                         std::map<int32_t, Digest>& by_rank, int32_t& version) {
  grpc::ClientContext context;
  context.set_deadline(node.UnaryDeadline());
  const Interrupts::Hold hold(node.interrupts(), &context);
  const auto reader =
      node.stub<v1::RunReaderService::Stub>().ListDigests(&context, request);
  v1::ListDigestsResponse message;
  while (reader->Read(&message)) {
    for (const Digest& digest : message.digests()) {
      Digest& rank = by_rank[digest.rank()];
      rank.set_rank(digest.rank());
      AddDigest(digest, rank);
    }
    version = message.version();
    request.set_position(message.position());
  }
  return reader->Finish();
}

}  // namespace

Fanout::NodeCall MakeRankContentsCall() {
  return [](Connection& node, const Fanout::Message& message,
            Fanout::Message& response) -> Outcome {
    MSITCTL_RETURN_IF_FAILED(node.Connect());
    auto request = static_cast<const v1::ListDigestsRequest&>(message);
    auto& out = static_cast<v1::ListDigestsResponse&>(response);
    std::map<int32_t, Digest> by_rank;
    int32_t version = 0;
    grpc::Status status;
    std::string position;
    do {
      position = request.position();
      status = ReadDigests(node, request, by_rank, version);
      // A large run takes longer than one call.
    } while (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
             request.position() != position &&
             Connection::Clock::now() < node.StreamDeadline());
    MSITCTL_RETURN_IF_FAILED(node.OutcomeOf(status));
    out.set_version(version);
    for (auto& [rank, digest] : by_rank) *out.add_digests() = std::move(digest);
    return {};
  };
}

Fanout::NodeCall MakePlacementsCall() {
  return [](Connection& node, const Fanout::Message& message,
            Fanout::Message& response) -> Outcome {
    MSITCTL_RETURN_IF_FAILED(node.Connect());
    grpc::ClientContext context;
    context.set_deadline(node.UnaryDeadline());
    const Interrupts::Hold hold(node.interrupts(), &context);
    const auto reader = node.stub<v1::RunReaderService::Stub>().DescribeRun(
        &context, static_cast<const v1::DescribeRunRequest&>(message));
    auto& out = static_cast<v1::DescribeRunResponse&>(response);
    v1::DescribeRunResponse part;
    while (reader->Read(&part)) {
      // The placements of one message show that the run has some.
      if (!part.placements().empty()) out = part;
    }
    return node.OutcomeOf(reader->Finish());
  };
}

void RankContents::Add(const RankSet& ranks,
                       const v1::ListDigestsResponse& answer) {
  std::map<int32_t, Content> there;
  for (const Digest& digest : answer.digests()) {
    there[digest.rank()] = {digest.record_count(), digest.hash_low(),
                            digest.hash_high(), answer.version()};
  }
  for (const int32_t rank : ranks.Ranks(kContentRanksMax)) {
    const auto found = there.find(rank);
    if (found == there.end()) {
      different_.insert(rank);
      continue;
    }
    const auto [known, is_new] = contents_.emplace(rank, found->second);
    if (!is_new && known->second != found->second) different_.insert(rank);
  }
}

RankSet RankContents::Different() const {
  const std::vector<int32_t> ranks(different_.begin(), different_.end());
  return RankSet::Of(ranks);
}

}  // namespace msitd::ask
