// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace msitd::compare::explain {
namespace {

// Sums of their own, because an addition has to wait for the one before it.
double Dot(const double* x, const double* y, size_t count) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += x[i + j] * y[i + j];
  }
  double out = 0;
  for (; i < count; ++i) out += x[i] * y[i];
  for (const double sum : sums) out += sum;
  return out;
}

// Returns the input whose name ends with one of these.
const Elements* InputOf(const ExaminedOp& op, std::string_view index,
                        std::string_view keyword) {
  for (const ExaminedInput& input : op.inputs) {
    const std::string_view name = input.name;
    const std::string_view end = name.substr(name.rfind('/') + 1);
    if (end == index || end == keyword) return &input.elements;
  }
  return nullptr;
}

// Returns the mask as terms of the scores; empty if it cannot be one.
std::vector<double> MaskTermsOf(const Elements& mask, size_t heads,
                                size_t queries, size_t keys) {
  const size_t tables =
      mask.values.size() / std::max<size_t>(queries * keys, 1);
  const auto& shape = mask.shape;
  if (shape.size() < 2 || static_cast<size_t>(shape.back()) != keys ||
      static_cast<size_t>(shape[shape.size() - 2]) != queries || tables == 0 ||
      heads % tables != 0) {
    return {};
  }
  std::vector<double> out = mask.values;
  const bool is_boolean =
      std::all_of(out.begin(), out.end(),
                  [](double x) { return x == 0 || x == 1; }) &&
      std::find(out.begin(), out.end(), 1) != out.end();
  if (is_boolean) {
    for (double& x : out) {
      x = x == 1 ? 0 : -std::numeric_limits<double>::infinity();
    }
  }
  return out;
}

}  // namespace

std::optional<HeadLayout> HeadLayoutOf(std::span<const int64_t> shape,
                                       bool has_heads_first) {
  if (shape.size() != 3 && shape.size() != 4) return std::nullopt;
  const auto at = [&shape](size_t from_end) {
    return static_cast<size_t>(shape[shape.size() - from_end]);
  };
  HeadLayout out;
  out.batch = shape.size() == 4 ? at(4) : 1;
  out.heads = has_heads_first ? at(3) : at(2);
  out.length = has_heads_first ? at(2) : at(3);
  out.width = at(1);
  out.has_heads_first = has_heads_first;
  return out;
}

std::string AttentionMask::Name(size_t keys) const {
  if (is_given) return "the mask that it received";
  if (end < keys) return fmt::format("only the first {} keys", end);
  if (begin > 0) return fmt::format("all but the first {} keys", begin);
  if (window > 0) return fmt::format("a causal window of {} keys", window);
  if (!is_causal) return "no mask";
  return "a causal mask";
}

double AttentionInputs::MaskAt(size_t head, size_t query, size_t key) const {
  const size_t table = queries.length * keys.length;
  const size_t tables = mask.size() / table;
  // A mask of fewer tables is that of each entry of the batch, or of all.
  const size_t of =
      tables == queries.head_count() ? head : head / queries.heads % tables;
  return mask[of * table + query * keys.length + key];
}

std::vector<double> AttentionInputs::ProductsOf(size_t head, size_t query,
                                                size_t key_head) const {
  std::vector<double> out(keys.length);
  const double* const x = &q[queries.At(head, query)];
  for (size_t key = 0; key < keys.length; ++key) {
    out[key] = Dot(x, &k[keys.At(key_head, key)], queries.width);
  }
  return out;
}

void AttentionInputs::Attend(const AttentionSetting& setting, size_t head,
                             size_t query, std::span<const double> products,
                             std::span<double> out) const {
  const size_t width = queries.width;
  std::vector<double> scores(keys.length,
                             -std::numeric_limits<double>::infinity());
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t key = 0; key < keys.length; ++key) {
    if (!setting.mask.IsOpen(query, key)) continue;
    scores[key] = setting.scale * products[key];
    if (setting.mask.is_given) scores[key] += MaskAt(head, query, key);
    largest = std::max(largest, scores[key]);
  }
  std::fill(out.begin(), out.end(), 0.0);
  if (!std::isfinite(largest)) return;
  double total = 0;
  for (size_t key = 0; key < keys.length; ++key) {
    const double weight = std::exp(scores[key] - largest);
    if (!(weight > 0)) continue;
    total += weight;
    const double* const z = &v[keys.At(setting.value_heads[head], key)];
    for (size_t i = 0; i < width; ++i) out[i] += weight * z[i];
  }
  const double factor = 1 / total;
  for (double& value : out) value *= factor;
}

std::optional<AttentionInputs> AttentionInputsOf(const ExaminedOp& op,
                                                 bool has_heads_first) {
  const Elements* const q = InputOf(op, "0", "query");
  const Elements* const k = InputOf(op, "1", "key");
  const Elements* const v = InputOf(op, "2", "value");
  if (q == nullptr || k == nullptr || v == nullptr || k->values.empty() ||
      q->shape != op.golden.shape || k->shape != v->shape ||
      k->shape.size() != q->shape.size() ||
      k->shape.back() != q->shape.back()) {
    return std::nullopt;
  }
  AttentionInputs out;
  const auto queries = HeadLayoutOf(q->shape, has_heads_first);
  const auto keys = HeadLayoutOf(k->shape, has_heads_first);
  if (!queries.has_value() || keys->batch != queries->batch ||
      queries->heads % keys->heads != 0) {
    return std::nullopt;
  }
  out.queries = *queries;
  out.keys = *keys;
  out.q = q->values;
  out.k = k->values;
  out.v = v->values;
  if (const Elements* const mask = InputOf(op, "3", "attn_mask")) {
    out.mask = MaskTermsOf(*mask, queries->head_count(), queries->length,
                           keys->length);
    if (out.mask.empty()) return std::nullopt;
  }
  return out;
}

}  // namespace msitd::compare::explain
