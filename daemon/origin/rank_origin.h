// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/origin/module_facts.h"
#include "daemon/origin/rank_events.h"
#include "daemon/origin/record_facts.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// Maximum number of RankOrigin::sent. Limits the memory of runs with many
// ranks.
inline constexpr size_t kSentHashesMax = 1024;

// The maker of the first symptom of a rank.
enum class OriginKind : uint8_t {
  // A call without recorded parts: its inputs do not have the symptom, but its
  // output has it.
  kOp,
  // Code of a call between its recorded parts.
  kCode,
  // Nothing recorded: a tensor that enters the record, such as an input of the
  // model or the gradient of the loss.
  kInput,
  // A weight of an op.
  kWeight,
  // A state of an op, such as the gradient that the optimizer uses.
  kState,
};

// The first symptom of a rank, and its maker.
struct RankOrigin {
  OriginKind kind = OriginKind::kOp;
  // The op that made it. For kCode the op whose code made it, for kInput the op
  // that received it.
  std::string op;
  // The recorded parts before and after it, if kCode. May be empty.
  std::string after;
  std::string before;
  // The first tensor that has the symptom, and its event.
  storage::TensorInfo tensor;
  int32_t event = -1;
  // Why the maker is not known, one sentence each. It is known if this is
  // empty.
  std::vector<std::string> gaps;
  // Further facts for users.
  std::vector<std::string> notes;
  // True if the value may have been received from another rank in a way that
  // the record does not show.
  bool may_be_received = false;
  // Hashes of tensors with the symptom that the rank may have sent to others:
  // results of outermost calls, and arguments of communication. Ascending, at
  // most kSentHashesMax.
  std::vector<uint64_t> sent;

  bool is_known() const { return gaps.empty(); }
};

// The context of a search in one rank.
struct RankContext {
  storage::RunReader& run;
  const ModuleTree& tree;
  const RecordFacts& facts;
  // True if the rank has no records of the token before, although there is
  // such a token.
  bool lacks_token_before = false;
  // False if the sequence numbers of the run are not the order of execution.
  bool has_order = true;
  // Why not all tensors of earlier tokens are known to be clean, one sentence;
  // empty if they are.
  std::string earlier_doubt = {};
  // The last sequence number of the token before. nullopt if there is none, or
  // if no records can be lost.
  std::optional<uint64_t> sequence_before = {};
};

// Finds the maker of the first symptom in `events`, which must have one.
//
// The first symptom in execution order has only clean tensors before it. If it
// is the result of a call whose inputs are all recorded, that call made it, or
// code of it after its last part. If it is an input of a call, code made it
// that ran before the call, inside the call around it. Everything that could
// make this wrong is a gap: inputs that are not recorded, ops that the capture
// excludes, lost records, tensors without a summary, state of tokens that are
// not recorded, weights that an optimizer may have changed.
//
// Errors: those of the reader; that of `stop`.
absl::StatusOr<RankOrigin> FindRankOrigin(const RankEvents& events,
                                          const RankContext& context,
                                          storage::StopCheck stop);

}  // namespace msitd::origin
