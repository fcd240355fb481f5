// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// Functions of each element: activations, and activations of a gate.
namespace msitd::compare::explain {
namespace {

struct Activation {
  std::string_view name;
  double (*of)(double);
};

double Gelu(double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }
double GeluTanh(double x) {
  constexpr double kCubic = 0.044715;
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(M_2_PI) * (x + kCubic * x * x * x)));
}
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double GeluQuick(double x) { return x * Sigmoid(1.702 * x); }
double Silu(double x) { return x * Sigmoid(x); }
double Relu(double x) { return x > 0 ? x : 0; }
double SquaredRelu(double x) { return x > 0 ? x * x : 0; }
double LeakyRelu(double x) { return x > 0 ? x : 0.01 * x; }
double Elu(double x) { return x > 0 ? x : std::expm1(x); }
double Softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double Tanh(double x) { return std::tanh(x); }
double Itself(double x) { return x; }

constexpr std::array<Activation, 12> kActivations = {
    {{"gelu", Gelu},
     {"tanh gelu", GeluTanh},
     {"quick gelu", GeluQuick},
     {"silu", Silu},
     {"relu", Relu},
     {"squared relu", SquaredRelu},
     {"leaky relu", LeakyRelu},
     {"elu", Elu},
     {"softplus", Softplus},
     {"tanh", Tanh},
     {"sigmoid", Sigmoid},
     {"no activation", Itself}}};

// A function of two inputs: an activation of the first one, times the second
// one if there is one.
class Gated {
 public:
  Gated(const std::vector<double>& x, const std::vector<double>* gate)
      : x_(x), gate_(gate) {}

  double At(const Activation& activation, size_t i) const {
    const double y = activation.of(x_[i]);
    return gate_ == nullptr ? y : y * (*gate_)[i];
  }

  // Returns the error of the function as the golden tensor.
  double GoldenErrorOf(const Activation& activation, const Examination& pair,
                       size_t step) const {
    double squares = 0;
    double norm = 0;
    for (size_t i = 0; i < pair.size(); i += step) {
      const double g = pair.golden()[i];
      const double d = At(activation, i) - g;
      squares += d * d;
      norm += g * g;
    }
    return norm > 0 ? std::sqrt(squares / norm) : kInfinite;
  }

 private:
  const std::vector<double>& x_;
  const std::vector<double>* gate_;
};

// Returns the activation with which the function is the golden tensor; null if
// there is none.
const Activation* ActivationOf(const Gated& gated, const Examination& pair) {
  constexpr size_t kSampled = 512;
  const size_t step = std::max<size_t>(pair.size() / kSampled | 1, 1);
  const Activation* best = nullptr;
  double least = pair.limit();
  for (const Activation& activation : kActivations) {
    const double error = gated.GoldenErrorOf(activation, pair, step);
    if (error > least) continue;
    least = error;
    best = &activation;
  }
  return best;
}

void TestActivation(Examination& pair, const Gated& gated,
                    const Gated* swapped) {
  const Activation* const golden = ActivationOf(gated, pair);
  if (golden == nullptr) return;
  for (const Activation& activation : kActivations) {
    if (&activation == golden) continue;
    pair.Offer(
        {Kind::kActivation,
         fmt::format("{} in place of {}", activation.name, golden->name),
         {},
         0,
         0,
         pair.ResidualOf([&](size_t i) { return gated.At(activation, i); })});
  }
  if (swapped == nullptr) return;
  pair.Offer(
      {Kind::kSwappedInputs,
       fmt::format("{} of the other input: both inputs changed places",
                   golden->name),
       {},
       0,
       0,
       pair.ResidualOf([&](size_t i) { return swapped->At(*golden, i); })});
}

}  // namespace

void TestActivations(Examination& pair) {
  if (!pair.is_finite()) return;
  std::vector<const std::vector<double>*> inputs;
  for (const ExaminedInput& input : pair.inputs()) {
    if (input.elements.values.size() == pair.size()) {
      inputs.push_back(&input.elements.values);
    }
  }
  for (const auto* const x : inputs) {
    TestActivation(pair, Gated(*x, nullptr), nullptr);
    for (const auto* const gate : inputs) {
      if (gate == x) continue;
      const Gated swapped(*gate, x);
      TestActivation(pair, Gated(*x, gate), &swapped);
    }
  }
}

}  // namespace msitd::compare::explain
