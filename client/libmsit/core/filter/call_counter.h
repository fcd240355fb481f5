// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "client/libmsit/core/filter/piece_memory.h"

namespace msitd::libmsit {

// Numbers the calls of each op within each token. Thread-compatible.
//
// Its memory is taken from the host in large blocks: if each token left small
// pieces of memory between the tensors of the host, malloc could not use the
// space of these tensors again.
class CallCounter {
 public:
  // Maximum number of names over all tokens, and of tokens. Beyond them the
  // token without a call for the longest time is forgotten; its calls then
  // start at 0 again.
  static constexpr size_t kNamesMax = size_t{1} << 18;
  static constexpr size_t kTokensMax = size_t{1} << 14;

  // `host` provides the memory and outlives the counter. The default resource
  // of the host is not used, because the host may replace and destroy it.
  explicit CallCounter(
      size_t names_max = kNamesMax, size_t tokens_max = kTokensMax,
      std::pmr::memory_resource* host = std::pmr::new_delete_resource())
      : names_max_(names_max), tokens_max_(tokens_max), memory_(host) {}
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  // Returns 0, 1, 2, ... for each `name` within `token`. Returns nullopt if
  // this token has more than `names_max` names, or this name more than kCallMax
  // calls. Throws std::bad_alloc if the host has no memory; the call is then
  // not counted.
  std::optional<int32_t> Next(int64_t token, std::string_view name);

 private:
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };
  // Names, with the number of tokens that have them. Tokens mostly have the
  // same names, so that each is stored once.
  using Names = std::pmr::unordered_map<std::pmr::string, uint32_t, NameHash,
                                        std::equal_to<>>;
  using NextCalls = std::pmr::unordered_map<Names::value_type*, int32_t>;
  // Tokens, by the time of their last call.
  using Order = std::pmr::list<int64_t>;
  struct Calls {
    using allocator_type = std::pmr::polymorphic_allocator<std::byte>;
    Calls(Order::iterator place, const allocator_type& memory)
        : next(memory), place(place) {}

    NextCalls next;
    Order::iterator place;
  };
  using Tokens = std::pmr::unordered_map<int64_t, Calls>;

  NextCalls& CallsOf(int64_t token);
  void ForgetOldestToken();

  size_t names_max_;
  size_t tokens_max_;
  PieceMemory memory_;
  // Names of a token, of all tokens together.
  size_t name_count_ = 0;
  Names names_{&memory_};
  Order order_{&memory_};
  Tokens tokens_{&memory_};
  // The token of the last call, which is usually that of the next.
  Tokens::iterator last_ = tokens_.end();
};

}  // namespace msitd::libmsit
