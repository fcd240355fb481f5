// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/chain.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

namespace msitd::origin {
namespace {

using Event = RankEvents::Event;
using Role = CallNesting::Role;

constexpr int32_t kNoEvent = CallNesting::kNone;

class ChainFinder {
 public:
  ChainFinder(const RankEvents& events, int32_t origin)
      : events_(events), origin_(origin) {}

  // Returns the last symptom that is a result of an outermost call, or the last
  // symptom.
  int32_t LastResult() const {
    int32_t last = origin_;
    int32_t result = kNoEvent;
    const auto count = static_cast<int32_t>(events_.events().size());
    for (int32_t i = origin_; i < count; ++i) {
      if (!IsSymptom(i)) continue;
      last = i;
      const CallNesting::Call& call = events_.call_of(i);
      if (call.parent == kNoEvent && RoleOf(i) == Role::kOutput &&
          call.is_backward == events_.call_of(origin_).is_backward) {
        result = i;
      }
    }
    return result == kNoEvent ? last : result;
  }

  // Returns an earlier symptom that `event` follows from; at least `origin`.
  int32_t SourceOf(int32_t event) const {
    int32_t found = kNoEvent;
    switch (RoleOf(event)) {
      case Role::kOutput:
        found = SourceOfOutput(event);
        break;
      case Role::kInput:
        found = SourceOfInput(event);
        break;
      default:
        break;
    }
    return found == kNoEvent ? origin_ : found;
  }

 private:
  bool IsSymptom(int32_t i) const {
    return events_.event(i).state == State::kSymptom;
  }
  Role RoleOf(int32_t i) const {
    return CallNesting::RoleOf(events_.event(i).io);
  }

  // Counts a visit; false once there were too many.
  bool Visit() const { return ++visit_count_ < kChainVisitsMax; }

  int32_t SourceOfOutput(int32_t event) const {
    const int32_t call = events_.event(event).call;
    const int32_t begin = std::max(origin_, events_.call_of(event).first);
    int32_t input = kNoEvent;
    for (int32_t i = event - 1; i >= begin && Visit(); --i) {
      if (!IsSymptom(i)) continue;
      if (events_.call_of(i).parent == call && RoleOf(i) == Role::kOutput) {
        return i;
      }
      if (events_.event(i).call == call && RoleOf(i) == Role::kInput) input = i;
    }
    return input;
  }

  int32_t SourceOfInput(int32_t event) const {
    const uint64_t hash = events_.event(event).hash;
    const int32_t scope = events_.call_of(event).parent;
    const int32_t begin =
        scope == kNoEvent
            ? origin_
            : std::max(origin_, events_.nesting().calls()[scope].first);
    int32_t found = kNoEvent;
    for (int32_t i = event - 1; i >= begin && Visit(); --i) {
      // Without a hash, no earlier tensor can be recognized by its bytes.
      if (found != kNoEvent &&
          (hash == 0 || event - i > kSameBytesDistanceMax)) {
        break;
      }
      if (!IsSymptom(i) || events_.event(i).call == events_.event(event).call) {
        continue;
      }
      if (hash != 0 && events_.event(i).hash == hash) return i;
      const bool is_in_code =
          (events_.call_of(i).parent == scope && RoleOf(i) == Role::kOutput) ||
          (events_.event(i).call == scope && RoleOf(i) == Role::kInput);
      if (found == kNoEvent && is_in_code) found = i;
    }
    return found;
  }

  const RankEvents& events_;
  const int32_t origin_;
  mutable int64_t visit_count_ = 0;
};

}  // namespace

Chain FindChain(const RankEvents& events, int32_t origin) {
  const ChainFinder finder(events, origin);
  std::vector<int32_t> last;    // The last steps, the last one first.
  std::deque<int32_t> earlier;  // Those before them, up to the current one.
  std::unordered_set<int32_t> calls;
  Chain chain;
  for (int32_t i = finder.LastResult(); i > origin; i = finder.SourceOf(i)) {
    if (!calls.insert(events.event(i).call).second) continue;
    (last.size() < kChainStepsMax / 2 ? last.emplace_back(i)
                                      : earlier.emplace_back(i));
    // One step is left for the origin.
    if (earlier.size() < kChainStepsMax / 2) continue;
    earlier.pop_front();
    ++chain.omitted_count;
  }
  chain.steps.push_back(origin);
  chain.steps.insert(chain.steps.end(), earlier.rbegin(), earlier.rend());
  if (chain.omitted_count > 0) chain.omitted_after = chain.steps.size();
  chain.steps.insert(chain.steps.end(), last.rbegin(), last.rend());
  return chain;
}

}  // namespace msitd::origin
