// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "client/libmsit/core/status.h"

namespace msitd::libmsit {

// The tokens of one stream: the current token, the token at which the stream
// begins, and the highest token so far. Thread-safe, without a lock.
//
// Within the client, tokens are relative to the token base, the token at which
// the stream begins. A client that appends receives the base with the daemon's
// first answer; records made before that are moved. If the host uses the number
// of a token before the answer, or sets a token, the base is fixed at 0.
// References do not fix the base; see token_reference.h. Documents of token 0
// describe the rank, so they neither fix the base nor move.
class StreamTokens {
 public:
  // `appends`: the daemon decides the base. `has_late_base`: callers may see
  // tokens before that.
  StreamTokens(bool appends, bool has_late_base)
      : has_late_base_(has_late_base), base_(appends ? kBaseUnknown : 0) {}

  // Returns the base, or the base that applies unless the daemon answers
  // otherwise.
  int64_t base() const { return std::max(base_.load(), int64_t{0}); }
  // Fixes the base and returns it.
  int64_t FixBase();
  // Sets the base that the daemon has decided. Returns false if it is fixed
  // already.
  bool SetBase(int64_t base);

  // The current token, as a number; see msit_token.
  int64_t current() const { return current_.load() + base(); }
  // See msit_token_reference and msit_token_number.
  int64_t Reference() const;
  int64_t NumberOf(int64_t token) const;
  int64_t Next() { return current_.fetch_add(1) + 1 + base(); }
  Status Set(int64_t token);

  // Converts a token of a caller, or the current token, to a relative token.
  // Fixes the base if the caller has used a number.
  int64_t Counted(int64_t token);
  // Like Counted, for a query: does not fix the base. Returns nullopt for a
  // number before the base is known.
  std::optional<int64_t> CountedIfKnown(int64_t token);

  // The token that another thread waits for; see Await.
  struct Awaited {
    // True for the first token of the stream.
    bool is_first = false;
  };
  // Records that a relative token has begun. Returns a value if it is the one
  // that Await has requested.
  std::optional<Awaited> Begin(int64_t token);

  // One above the highest token that has begun.
  int64_t end() const { return end_.load(); }

  // Makes Begin report the next token that raises end() above `known_end`.
  // Returns false if one has begun already.
  bool Await(int64_t known_end);

 private:
  static constexpr int64_t kBaseUnknown = -1;

  const bool has_late_base_;
  // Relative to the base, like end_.
  std::atomic<int64_t> current_{0};
  // kBaseUnknown until the daemon has answered or the host has used the number
  // of a token. Changes from that value only once.
  std::atomic<int64_t> base_;
  // Sequentially consistent because either Begin or Await must see the other's
  // store. Begin raises end_, then loads is_awaited_. Await stores is_awaited_,
  // then loads end_.
  std::atomic<int64_t> end_{0};
  std::atomic<bool> is_awaited_{false};
};

}  // namespace msitd::libmsit
