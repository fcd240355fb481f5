// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/explain/examined_op.h"

// Attention that a single op computes, softmax(scale * q k^T + mask) v, from
// its inputs.
namespace msitd::compare::explain {

// Where the vectors of a tensor of queries, keys or values are:
// [batch, heads, length, width], or [batch, length, heads, width].
struct HeadLayout {
  size_t batch = 1;
  size_t heads = 1;
  size_t length = 1;
  size_t width = 1;
  bool has_heads_first = true;

  // `head` counts the heads of all entries of the batch.
  size_t At(size_t head, size_t position) const {
    const size_t row =
        has_heads_first
            ? head * length + position
            : (head / heads * length + position) * heads + head % heads;
    return row * width;
  }
  size_t head_count() const { return batch * heads; }
};

// Returns the layout of a tensor with 4 dimensions, or with 3, which has no
// batch. nullopt for any other.
std::optional<HeadLayout> HeadLayoutOf(std::span<const int64_t> shape,
                                       bool has_heads_first);

// The keys that a query uses.
struct AttentionMask {
  // A causal mask: the query at position q uses the keys up to q + shift.
  bool is_causal = false;
  std::ptrdiff_t shift = 0;
  // If not 0, the query uses only this many keys up to q + shift.
  size_t window = 0;
  // Only these keys are used.
  size_t begin = 0;
  size_t end = SIZE_MAX;
  // The mask that the op received is added to the scores.
  bool is_given = false;

  bool IsOpen(size_t query, size_t key) const {
    if (key < begin || key >= end) return false;
    const auto last = static_cast<std::ptrdiff_t>(query) + shift;
    const auto at = static_cast<std::ptrdiff_t>(key);
    if (is_causal && at > last) return false;
    return window == 0 || at + static_cast<std::ptrdiff_t>(window) > last;
  }
  // Returns a name such as `a causal mask`. `keys` is the number of keys.
  std::string Name(size_t keys) const;
};

struct AttentionSetting {
  double scale = 1;
  AttentionMask mask;
  // The head of keys, and of values, that each head of queries uses.
  std::vector<size_t> key_heads;
  std::vector<size_t> value_heads;
};

// The inputs of an attention. Borrows their values.
struct AttentionInputs {
  HeadLayout queries;
  HeadLayout keys;
  std::span<const double> q;
  std::span<const double> k;
  std::span<const double> v;
  // The mask that the op received, which has the shape [..., queries, keys];
  // empty if it received none. Closed elements are -Inf.
  std::vector<double> mask;

  // Returns an element of the mask.
  double MaskAt(size_t head, size_t query, size_t key) const;
  // Returns the products of a row of queries with all keys of a head.
  std::vector<double> ProductsOf(size_t head, size_t query,
                                 size_t key_head) const;
  // Writes the result of a row of queries. `products` are those with the keys
  // that the setting has for its head.
  void Attend(const AttentionSetting& setting, size_t head, size_t query,
              std::span<const double> products, std::span<double> out) const;
};

// Returns the inputs of an op whose result is that of an attention, as far as
// the shapes and names of its inputs permit it.
std::optional<AttentionInputs> AttentionInputsOf(const ExaminedOp& op,
                                                 bool has_heads_first);

}  // namespace msitd::compare::explain
