// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

namespace msitd::compute {

// KL(softmax(g) || softmax(t)) of elements that are added one by one. Sums are
// relative to e^max of the largest element so far, and are rescaled when it
// increases.
class SoftmaxDivergence {
 public:
  // Adds an element. Both sides must be finite.
  void Add(double t, double g) {
    AddTarget(t);
    Raise(g, golden_max_, golden_sum_, &moment_);
    const double weight = std::exp(g - golden_max_);
    golden_sum_ += weight;
    moment_ += weight * (g - t);
  }

  // Adds an element where g is -Inf, so that its share is 0.
  void AddTarget(double t) {
    Raise(t, target_max_, target_sum_, nullptr);
    target_sum_ += std::exp(t - target_max_);
  }

  // Returns the divergence; NaN if nothing was added.
  double Value() const {
    const double kl = moment_ / golden_sum_ -
                      (std::log(golden_sum_) + golden_max_) +
                      (std::log(target_sum_) + target_max_);
    return kl < 0 ? 0 : kl;
  }

  bool has_golden() const { return golden_sum_ > 0; }
  bool has_target() const { return target_sum_ > 0; }

 private:
  static void Raise(double x, double& max, double& sum, double* moment) {
    if (x <= max) return;
    const double factor = std::exp(max - x);
    sum *= factor;
    if (moment != nullptr) *moment *= factor;
    max = x;
  }

  double target_max_ = -std::numeric_limits<double>::infinity();
  double golden_max_ = -std::numeric_limits<double>::infinity();
  double target_sum_ = 0;
  double golden_sum_ = 0;
  double moment_ = 0;
};

}  // namespace msitd::compute
