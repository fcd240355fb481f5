// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/logit_pass.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "daemon/compute/softmax_divergence.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest element of a row. NaN is larger than any number, and the first of
// equal elements is kept.
struct LargestElement {
  bool is_set = false;
  double value = 0;
  double golden = 0;  // The golden element at its place.
  uint64_t place = 0;

  void Offer(double x, double g, uint64_t at) {
    if (is_set && !(x > value || (std::isnan(x) && !std::isnan(value)))) return;
    *this = {true, x, g, at};
  }
};

struct LogitRow {
  SoftmaxDivergence softmax;
  bool is_infinite = false;  // True if the divergence is infinite.
  LargestElement target;
  LargestElement golden;
  double least = kInfinity;  // The smallest golden element that is not masked.
};

class LogitPass final : public ElementPass {
 public:
  explicit LogitPass(const ElementRequest& request)
      : row_elements_(std::max<uint64_t>(request.row_elements, 1)) {}

  void Add(const ElementBlock& block) override {
    for (size_t i = 0; i < block.count; ++i) {
      AddElement(block.target[i], block.golden[i]);
      if (++at_ == row_elements_) EndRow();
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (row_ == 0) return;
    out.Set(ElementMetric::kTop1MarginFlip, flip_);
    out.top1_flip_row = flip_row_;
    if (is_undefined_) return;
    out.Set(ElementMetric::kRowKlMax, divergence_);
    out.row_kl_max_row = divergence_row_;
  }

 private:
  void AddElement(double t, double g) {
    current_.target.Offer(t, g, at_);
    current_.golden.Offer(g, g, at_);
    if (std::isfinite(g) && g >= kMaskedBelow) {
      current_.least = std::min(current_.least, g);
    }
    const auto is_excluded = [](double x) { return x == -kInfinity; };
    if (std::isfinite(t) && std::isfinite(g)) {
      current_.softmax.Add(t, g);
    } else if (is_excluded(g) && std::isfinite(t)) {
      current_.softmax.AddTarget(t);
    } else if (is_excluded(t) && std::isfinite(g)) {
      current_.is_infinite = true;
    } else if (!is_excluded(t) || !is_excluded(g)) {
      is_undefined_ = true;
    }
  }

  double DivergenceOfRow() const {
    const SoftmaxDivergence& softmax = current_.softmax;
    if (current_.is_infinite) return kInfinity;
    if (softmax.has_golden()) return softmax.Value();
    return softmax.has_target() ? kInfinity : 0;
  }

  // Returns 0 if both sides have their largest element in the same place.
  double FlipOfRow() const {
    const LargestElement& golden = current_.golden;
    const LargestElement& target = current_.target;
    if (golden.place == target.place) return 0;
    const double margin = golden.value - target.golden;
    if (margin == 0) return 0;
    if (!std::isfinite(margin)) return kInfinity;
    const double range = golden.value - current_.least;
    return range > 0 ? margin / range : kInfinity;
  }

  void EndRow() {
    const double divergence = DivergenceOfRow();
    if (divergence > divergence_) {
      divergence_ = divergence;
      divergence_row_ = row_;
    }
    const double flip = FlipOfRow();
    if (flip > flip_) {
      flip_ = flip;
      flip_row_ = row_;
    }
    current_ = LogitRow();
    at_ = 0;
    ++row_;
  }

  const uint64_t row_elements_;
  uint64_t at_ = 0;
  uint64_t row_ = 0;
  LogitRow current_;
  bool is_undefined_ = false;
  double divergence_ = 0;
  uint64_t divergence_row_ = 0;
  double flip_ = 0;
  uint64_t flip_row_ = 0;
};

}  // namespace

std::unique_ptr<ElementPass> MakeLogitPass(const ElementRequest& request) {
  return std::make_unique<LogitPass>(request);
}

}  // namespace msitd::compute
