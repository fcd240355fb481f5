// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/explain/attention.h"
#include "daemon/compare/explain/hypothesis.h"

// Fused attention, with another scale, another mask, or keys and values of
// other heads.
//
// Scores and probabilities are inside of the kernel, so a mistake in them is
// not a transformation of its result. But the inputs of the kernel determine
// the result. The attention is therefore computed again, for some rows. Only if
// this gives the golden result is it computed with mistakes.
namespace msitd::compare::explain {
namespace {

// Larger attentions take too long.
constexpr size_t kKeyElementsMax = size_t{1} << 16;
// The number of products of a computation of some rows, and of a few rows.
constexpr size_t kProductsMax = size_t{1} << 20;
constexpr size_t kFewProductsMax = size_t{1} << 17;
constexpr size_t kWindowsMax = 32;
// The relative error of tensors that have nothing in common.
constexpr double kFarError = 0.9;

// A row of the result.
struct Row {
  size_t head = 0;
  size_t query = 0;
  // The products of the query with the keys of its head in the golden run.
  // Empty if they are not known.
  std::vector<double> products = {};
};

struct Errors {
  double residual = kInfinite;
  double without = 0;
};

class AttentionTest {
 public:
  AttentionTest(Examination& pair, AttentionInputs inputs)
      : pair_(pair), inputs_(std::move(inputs)) {
    rows_ = RowsOf(kProductsMax);
    few_rows_ = RowsOf(kFewProductsMax);
    const size_t group = inputs_.queries.heads / inputs_.keys.heads;
    for (size_t head = 0; head < inputs_.queries.head_count(); ++head) {
      golden_.key_heads.push_back(head / group);
    }
    golden_.value_heads = golden_.key_heads;
    for (Row& row : few_rows_) {
      row.products =
          inputs_.ProductsOf(row.head, row.query, golden_.key_heads[row.head]);
    }
  }

  void Run() {
    if (!FindGolden()) return;
    TestScale();
    TestMasks();
    TestHeads();
  }

 private:
  // Returns rows of all heads and positions, as many as are computed with some
  // number of products.
  std::vector<Row> RowsOf(size_t products) const {
    const size_t count = inputs_.queries.head_count() * inputs_.queries.length;
    // To compare a row with the result takes as long as some products.
    const size_t of_row = 2 * (inputs_.keys.length + 4) * inputs_.keys.width;
    const size_t wanted = std::max<size_t>(products / of_row, 2);
    // An odd step meets all heads.
    const size_t step = count <= wanted ? 1 : (count / wanted) | 1;
    std::vector<Row> out;
    // The last rows see the most keys.
    for (size_t i = 0; i < count; i += step) {
      const size_t row = count - 1 - i;
      out.push_back(
          {row / inputs_.queries.length, row % inputs_.queries.length});
    }
    return out;
  }

  // Returns the error of some rows of a tensor, relative to their norm.
  Errors ErrorsOf(const AttentionSetting& setting, std::span<const double> of,
                  const std::vector<Row>& rows) const {
    const size_t width = inputs_.queries.width;
    std::vector<double> products;
    std::vector<double> out(width);
    double squares = 0;
    double norm = 0;
    double golden_norm = 0;
    double difference = 0;
    for (const Row& row : rows) {
      const size_t key_head = setting.key_heads[row.head];
      const bool is_known =
          !row.products.empty() && key_head == golden_.key_heads[row.head];
      if (!is_known) {
        products = inputs_.ProductsOf(row.head, row.query, key_head);
      }
      inputs_.Attend(setting, row.head, row.query,
                     is_known ? row.products : products, out);
      const size_t begin = inputs_.queries.At(row.head, row.query);
      for (size_t i = 0; i < width; ++i) {
        const double x = of[begin + i];
        const double g = pair_.golden()[begin + i];
        squares += (x - out[i]) * (x - out[i]);
        norm += x * x;
        golden_norm += g * g;
        difference += (x - g) * (x - g);
      }
    }
    if (!(norm > 0) || !(golden_norm > 0) || std::isnan(squares)) return {};
    return {std::sqrt(squares / std::max(norm, golden_norm)),
            std::sqrt(difference / golden_norm)};
  }
  double FewError(const AttentionSetting& setting,
                  std::span<const double> of) const {
    return ErrorsOf(setting, of, few_rows_).residual;
  }

  // Returns the scale with the least error, and that error.
  std::pair<double, double> FitScale(AttentionSetting setting,
                                     std::span<const double> of) const {
    constexpr int kSteps = 24;
    constexpr double kRatio = 1.5;
    const auto error_at = [&](double log_scale) {
      setting.scale = std::exp(log_scale);
      return FewError(setting, of);
    };
    const double first = std::log(inputs_.queries.width) * -1.5;
    double best = first;
    double least = kInfinite;
    for (int i = 0; i < kSteps; ++i) {
      const double at = first + i * std::log(kRatio);
      if (const double error = error_at(at); error < least) {
        least = error;
        best = at;
      }
    }
    if (least > kFarError) return {std::exp(best), least};
    // The error has one minimum near the best step.
    double low = best - std::log(kRatio);
    double high = best + std::log(kRatio);
    constexpr double kGolden = 0.6180339887498949;
    double a = high - kGolden * (high - low);
    double b = low + kGolden * (high - low);
    double error_a = error_at(a);
    double error_b = error_at(b);
    const double tolerance = std::max(pair_.limit() / 64, 1e-9);
    while (high - low > tolerance) {
      if (error_a < error_b) {
        high = std::exchange(b, a);
        error_b = error_a;
        a = high - kGolden * (high - low);
        error_a = error_at(a);
      } else {
        low = std::exchange(a, b);
        error_a = error_b;
        b = low + kGolden * (high - low);
        error_b = error_at(b);
      }
    }
    const double at = (low + high) / 2;
    return {std::exp(at), error_at(at)};
  }

  std::ptrdiff_t LastShift() const {
    return static_cast<std::ptrdiff_t>(inputs_.keys.length) -
           static_cast<std::ptrdiff_t>(inputs_.queries.length);
  }

  // Returns the usual masks. A causal mask opens only the first key to the
  // first query, or all keys to the last query.
  std::vector<AttentionMask> UsualMasks() const {
    std::vector<AttentionMask> out;
    if (!inputs_.mask.empty()) out.push_back({.is_given = true});
    out.push_back({});
    if (inputs_.queries.length > 1) {
      out.push_back({.is_causal = true});
      if (LastShift() != 0) {
        out.push_back({.is_causal = true, .shift = LastShift()});
      }
    }
    return out;
  }

  // Finds the setting of the golden run.
  bool FindGolden() {
    golden_.scale = 1 / std::sqrt(static_cast<double>(inputs_.queries.width));
    for (const bool fits_scale : {false, true}) {
      for (const AttentionMask& mask : UsualMasks()) {
        AttentionSetting setting = golden_;
        setting.mask = mask;
        if (fits_scale) {
          setting.scale = FitScale(setting, pair_.golden()).first;
        }
        if (FewError(setting, pair_.golden()) > pair_.limit() ||
            ErrorsOf(setting, pair_.golden(), rows_).residual > pair_.limit()) {
          continue;
        }
        golden_ = std::move(setting);
        return true;
      }
    }
    return false;
  }

  // Offers a setting if it gives the target.
  void Offer(const AttentionSetting& setting, Fit fit) {
    if (FewError(setting, pair_.target()) > 2 * pair_.limit()) return;
    const Errors errors = ErrorsOf(setting, pair_.target(), rows_);
    fit.residual = errors.residual;
    fit.without = errors.without;
    pair_.Offer(std::move(fit));
  }

  void TestScale() {
    AttentionSetting setting = golden_;
    const auto [scale, error] = FitScale(setting, pair_.target());
    if (error > 2 * pair_.limit()) return;
    setting.scale = scale;
    const double ratio = scale / golden_.scale;
    Offer(setting,
          {Kind::kSoftmaxScale,
           fmt::format("attention of scores * {:.4g}: scale {:.4g} in place of "
                       "{:.4g}",
                       ratio, scale, golden_.scale),
           {ratio},
           1,
           1});
  }

  // Returns the masks that may be used by mistake.
  std::vector<AttentionMask> OtherMasks() const {
    std::vector<AttentionMask> out = UsualMasks();
    const size_t keys = inputs_.keys.length;
    const size_t count = std::min(keys, kWindowsMax);
    if (inputs_.queries.length > 1) {
      for (const std::ptrdiff_t shift : {0L, LastShift()}) {
        for (const std::ptrdiff_t off : {-1L, 1L}) {
          out.push_back({.is_causal = true, .shift = shift + off});
        }
      }
    }
    for (size_t i = 1; i < count; ++i) {
      AttentionMask mask = golden_.mask;
      mask.is_causal = true;
      if (!golden_.mask.is_causal) mask.shift = LastShift();
      mask.window = i;
      out.push_back(mask);
      mask = golden_.mask;
      mask.begin = i;
      out.push_back(mask);
      mask = golden_.mask;
      mask.end = keys - i;
      out.push_back(mask);
    }
    return out;
  }

  // Returns how a mask differs from that of the golden run.
  std::string MaskText(const AttentionMask& mask) const {
    const size_t keys = inputs_.keys.length;
    const bool is_moved = mask.is_causal && golden_.mask.is_causal &&
                          mask.window == 0 && mask.begin == 0 &&
                          mask.end >= keys;
    if (!is_moved) {
      return fmt::format("attention with {} in place of {}", mask.Name(keys),
                         golden_.mask.Name(keys));
    }
    const std::ptrdiff_t more = mask.shift - golden_.mask.shift;
    return fmt::format(
        "attention with a causal mask that {} {} more key{} of "
        "each query",
        more > 0 ? "opens" : "closes", std::abs(more),
        std::abs(more) == 1 ? "" : "s");
  }

  void TestMasks() {
    AttentionSetting best = golden_;
    double least = kInfinite;
    AttentionSetting setting = golden_;
    for (const AttentionMask& mask : OtherMasks()) {
      setting.mask = mask;
      const double error = FewError(setting, pair_.target());
      if (error >= least) continue;
      least = error;
      best = setting;
    }
    Offer(best, {Kind::kMask, MaskText(best.mask), {}, 1, 0});
  }

  // Finds the head of keys, or of values, or of both, that each head of queries
  // has used.
  void TestHeads() {
    const size_t heads = inputs_.queries.head_count();
    const size_t others = inputs_.keys.head_count();
    const size_t of_row = 2 * inputs_.keys.length * inputs_.keys.width;
    if (others < 2 || heads * others * of_row > 4 * kProductsMax) return;
    for (const auto& [moves_keys, moves_values, name] :
         {std::tuple{true, true, "keys and values"},
          std::tuple{true, false, "keys"}, std::tuple{false, true, "values"}}) {
      AttentionSetting setting = golden_;
      size_t moved = 0;
      for (size_t head = 0; head < heads; ++head) {
        double least = kInfinite;
        AttentionSetting tried = golden_;
        for (size_t other = 0; other < others; ++other) {
          if (moves_keys) tried.key_heads[head] = other;
          if (moves_values) tried.value_heads[head] = other;
          const double error = ErrorsOf(tried, pair_.target(),
                                        {{head, inputs_.queries.length - 1}})
                                   .residual;
          if (error >= least) continue;
          least = error;
          if (moves_keys) setting.key_heads[head] = other;
          if (moves_values) setting.value_heads[head] = other;
        }
        moved += setting.key_heads[head] != golden_.key_heads[head] ||
                         setting.value_heads[head] != golden_.value_heads[head]
                     ? 1
                     : 0;
      }
      if (moved == 0) continue;
      Offer(setting, {Kind::kOrder,
                      HeadsText(setting, moves_keys, name),
                      {},
                      1 + static_cast<double>(moved),
                      0});
    }
  }

  std::string HeadsText(const AttentionSetting& setting, bool moves_keys,
                        const char* name) const {
    constexpr size_t kShownMax = 16;
    const auto list = [kShown = kShownMax](const std::vector<size_t>& of) {
      const size_t shown = std::min(of.size(), kShown);
      return fmt::format(
          "{}{}",
          fmt::join(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(shown),
                    ","),
          shown < of.size() ? ",..." : "");
    };
    return fmt::format(
        "attention with the {} of other heads: {} in place of {}", name,
        list(moves_keys ? setting.key_heads : setting.value_heads),
        list(golden_.key_heads));
  }

  Examination& pair_;
  const AttentionInputs inputs_;
  std::vector<Row> rows_;
  std::vector<Row> few_rows_;
  AttentionSetting golden_;
};

}  // namespace

void TestAttention(Examination& pair) {
  if (!pair.is_finite()) return;
  for (const bool has_heads_first : {true, false}) {
    const size_t fits = pair.fits().size();
    auto inputs = AttentionInputsOf(pair.op(), has_heads_first);
    if (!inputs.has_value() || inputs->keys.length < 2 ||
        inputs->keys.length * inputs->keys.width > kKeyElementsMax) {
      continue;
    }
    AttentionTest(pair, *std::move(inputs)).Run();
    if (pair.fits().size() > fits) return;
  }
}

}  // namespace msitd::compare::explain
