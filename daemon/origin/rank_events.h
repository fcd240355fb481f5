// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/calls/call_nesting.h"
#include "daemon/origin/symptom.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// Maximum number of records of a rank and token that are searched. Limits the
// memory to about 250 MiB.
inline constexpr size_t kRankEventsMax = size_t{1} << 21;

// A number for each name, in the order of their first appearance.
class NameNumbers {
 public:
  NameNumbers() = default;
  NameNumbers(NameNumbers&&) = default;
  NameNumbers& operator=(NameNumbers&&) = default;

  int32_t Of(std::string_view name);
  const std::string& Name(int32_t number) const { return *names_[number]; }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<const std::string*> names_;  // Keys of numbers_.
  std::string last_name_;
  int32_t last_ = -1;
};

// The records of a rank and token, except documents, in execution order, with
// the facts that a search needs.
class RankEvents {
 public:
  struct Event {
    uint64_t sequence = 0;
    // The low half of the hash; 0 if there is no hash.
    uint64_t hash = 0;
    int32_t op = 0;  // In names().
    int32_t index = 0;
    int32_t device = 0;
    int32_t call_number = 0;
    int32_t call = 0;  // In nesting().
    Io io = Io::kUnspecified;
    RecordKind kind = RecordKind::kTensor;
    State state = State::kClean;
    IgnoreRule rule = IgnoreRule::kMaskInput;  // If kIgnored.
    // True if the tensor does not reach the results of its call.
    bool may_be_absorbed = false;
    // True if the record states that the tensor requires a gradient.
    bool requires_grad = false;
  };

  // Errors: those of the reader; that of `stop`.
  static absl::StatusOr<RankEvents> Load(storage::RunReader& run, int32_t rank,
                                         int64_t token, SymptomJudge& judge,
                                         storage::StopCheck stop);

  int32_t rank() const { return rank_; }
  int64_t token() const { return token_; }
  const std::vector<Event>& events() const { return events_; }
  const Event& event(int32_t number) const { return events_[number]; }
  const CallNesting& nesting() const { return nesting_; }
  const CallNesting::Call& call_of(int32_t event) const {
    return nesting_.calls()[events_[event].call];
  }
  const std::string& op_of(int32_t event) const {
    return names_.Name(events_[event].op);
  }
  const std::string& index_of(int32_t event) const {
    return names_.Name(events_[event].index);
  }
  // Returns the key of an event. `run` is its run.
  TensorKey KeyOf(int32_t event, std::string_view run) const;
  // Returns `root.1 output/0`.
  std::string TextOf(int32_t event) const;

  // Returns the first event with a symptom; CallNesting::kNone if there is
  // none.
  int32_t FirstSymptom() const;

  // True if there are more than kRankEventsMax records. The others are missing
  // then.
  bool is_too_large() const { return is_too_large_; }
  // True if two records have the same position in the execution order, because
  // several clients recorded the rank.
  bool has_equal_sequences() const { return has_equal_sequences_; }
  // True if some record has statistics instead of a summary. Such records can
  // follow records of tensors that were computed later.
  bool has_statistics() const { return has_statistics_; }
  // Tensors with missing parts.
  uint64_t incomplete_count() const { return incomplete_count_; }

 private:
  void Add(const storage::TensorInfo& record, const Verdict& verdict);
  // Marks the inputs among the events of a call, which are not sorted yet.
  void EndCall(size_t begin, size_t end, const CallResults& results);
  void IgnoreAbsorbed();
  absl::Status Nest(storage::StopCheck stop);

  int32_t rank_ = 0;
  int64_t token_ = 0;
  NameNumbers names_;
  std::vector<Event> events_;
  CallNesting nesting_;
  bool is_too_large_ = false;
  bool has_equal_sequences_ = false;
  bool has_statistics_ = false;
  uint64_t incomplete_count_ = 0;
};

}  // namespace msitd::origin
