// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/call_book.h"

#include <algorithm>
#include <functional>

#include "protos/base/limits.h"

namespace msitd::watch {
namespace {

// Calls of one op that are distinguished by their group. Older calls are
// complete.
constexpr size_t kGroupsMax = 64;

// The digits of a time have no leading zeros.
bool IsEarlier(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

int32_t CallBook::CallOf(TensorKey key, const std::string& group,
                         const std::string& time) {
  TensorKey of_op = key;
  of_op.call = 0;
  of_op.io = Io::kUnspecified;
  of_op.index.clear();
  if (ops_.size() >= kOpsMax) ops_.clear();
  Op& op = ops_[fill::LedgerKeyOf(of_op)];
  const uint64_t hash = std::hash<std::string>()(group);
  const auto known =
      std::find_if(op.calls.begin(), op.calls.end(),
                   [hash](const auto& call) { return call.first == hash; });
  if (known != op.calls.end()) return known->second;
  key.call = op.next;
  while (key.call < kCallMax && ledger_.HasKey(fill::LedgerKeyOf(key))) {
    ++key.call;
  }
  if (!op.last_time.empty() && IsEarlier(time, op.last_time)) {
    ++late_count_;
  } else {
    op.last_time = time;
  }
  if (op.calls.size() == kGroupsMax) op.calls.erase(op.calls.begin());
  op.calls.emplace_back(hash, key.call);
  op.next = key.call == kCallMax ? key.call : key.call + 1;
  return key.call;
}

}  // namespace msitd::watch
