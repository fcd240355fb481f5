// SPDX-License-Identifier: Apache-2.0
// Messages in which a peer describes a run, its coordinates and its digests.
// The peer is not trusted.
#include <google/protobuf/stubs/logging.h>

#include "daemon/peers/equal_groups.h"
#include "daemon/peers/run_messages.h"
#include "protos/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::peers {
namespace {

void UseDescription(const v1::DescribeRunResponse& message) {
  const auto run = ToRunInfo(message);
  if (run.ok()) MSITD_CHECK(run->spec.world_size >= 0);
  for (const auto& coverage : message.coverage()) {
    const auto rank = ToCoverage(coverage);
    if (rank.ok()) MSITD_CHECK(rank->rank >= 0);
  }
}

// Accepted coordinates are sorted.
void UseCoordinates(const v1::ListCoordinatesResponse& message) {
  std::vector<storage::Coordinate> out;
  // A second message continues after the first one.
  if (!AddCoordinates(message, out).ok()) return;
  for (size_t i = 1; i < out.size(); ++i) {
    MSITD_CHECK(out[i - 1].rank <= out[i].rank);
  }
  (void)AddCoordinates(message, out);
}

// Each accepted group is contiguous, no matter how the messages are split.
void UseDigests(const v1::ListDigestsResponse& message) {
  EqualGroups groups;
  const auto group_of = [](const auto& digest) {
    return query::GroupDigest{{digest.rank(), digest.device(), digest.token()},
                              static_cast<uint64_t>(digest.record_count()),
                              {digest.hash_low(), digest.hash_high()}};
  };
  for (const auto& digest : message.digests()) {
    if (digest.hash_low() % 2 == 0) {
      MSITD_CHECK(groups.AddOther(group_of(digest)).ok());
    }
  }
  for (const auto& digest : message.digests()) {
    if (!groups.Add(group_of(digest)).ok()) break;
  }
  groups.Finish();
  size_t count = 0;
  for (const EqualGroups::Piece& piece : groups.Cut({})) {
    size_t tokens = 0;
    for (const TokenRange& range : piece.selector.tokens) {
      tokens += static_cast<size_t>(range.last - range.first + 1);
    }
    count += tokens * piece.selector.ranks.size();
  }
  MSITD_CHECK(count == groups.group_count());
}

}  // namespace
}  // namespace msitd::peers

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  v1::DescribeRunResponse run;
  run.set_run_id("1-2");
  run.mutable_run()->set_name("run");
  run.mutable_run()->set_world_size(4);
  run.mutable_run()->set_state(v1::Run::SEALED);
  (*run.mutable_run()->mutable_labels())["model"] = "small";
  run.mutable_run()->mutable_create_time()->set_seconds(1'700'000'000);
  run.mutable_run()->mutable_counters()->set_tensor_count(9);
  run.add_coverage()->set_rank(1);
  v1::ListCoordinatesResponse coordinates;
  v1::ListDigestsResponse digests;
  for (int rank = 0; rank < 2; ++rank) {
    auto& tokens = *coordinates.add_tokens();
    tokens.set_rank(rank);
    tokens.set_device("cpu:0");
    for (int token = 0; token < 3; ++token) {
      tokens.add_steps(token == 0 ? 0 : 1);
      auto& digest = *digests.add_digests();
      digest.set_rank(rank);
      digest.set_device("cpu:0");
      digest.set_token(token);
      digest.set_record_count(2);
      digest.set_hash_low(static_cast<uint64_t>(token));
    }
  }
  return {run.SerializeAsString(), coordinates.SerializeAsString(),
          digests.SerializeAsString()};
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Protobuf logs every string that is not UTF-8.
  [[maybe_unused]] static auto* const before =
      google::protobuf::SetLogHandler(nullptr);
  const int bytes = static_cast<int>(size);
  msitd::v1::DescribeRunResponse run;
  if (run.ParseFromArray(data, bytes)) msitd::peers::UseDescription(run);
  msitd::v1::ListCoordinatesResponse coordinates;
  if (coordinates.ParseFromArray(data, bytes)) {
    msitd::peers::UseCoordinates(coordinates);
  }
  msitd::v1::ListDigestsResponse digests;
  if (digests.ParseFromArray(data, bytes)) msitd::peers::UseDigests(digests);
  return 0;
}
