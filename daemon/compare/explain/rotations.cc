// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"
#include "daemon/compare/explain/rotation.h"

// Rotary embeddings with other pairs, another base or other positions.
namespace msitd::compare::explain {
namespace {

using Complex = std::complex<double>;

// Bases of known models, for the golden run. The difference of two frequencies
// does not determine both of them.
constexpr std::array<double, 9> kBases = {1e4, 5e5, 1e6, 1e5,  1e3,
                                          1e2, 1e7, 5e6, 1.5e5};
constexpr int kPositionsOffMax = 64;
constexpr size_t kRotatedWidthMax = 1024;
// A cell needs some elements, such as heads, for its rotation to be one.
constexpr size_t kPairsPerCellMin = 2;

std::string NameOf(RopePairs pairs) {
  return pairs == RopePairs::kHalves ? "halves" : "adjacent elements";
}

// Returns whether some pairs of two tensors have the same lengths, as rotations
// keep them.
bool KeepsLengths(const Examination& pair, const RotationGrid& grid,
                  std::span<const double> from, std::span<const double> to) {
  constexpr size_t kPairs = 512;
  const size_t step = std::max<size_t>(pair.size() / kPairs | 1, 1);
  double squares = 0;
  double norm = 0;
  for (size_t i = 0; i < pair.size(); i += step) {
    const size_t first = grid.FirstOf(i);
    const size_t second = grid.SecondOf(first);
    const double a = std::hypot(from[first], from[second]);
    const double b = std::hypot(to[first], to[second]);
    squares += (a - b) * (a - b);
    norm += a * a;
  }
  return pair.MayHold(squares, norm);
}

// The golden and the target tensor as rotations of each other.
class RotationTest {
 public:
  RotationTest(Examination& pair, size_t dim, RopePairs pairs)
      : pair_(pair), grid_(pair.shape(), dim, pairs) {}

  // Returns whether each cell was rotated.
  bool IsRotated() {
    if (pair_.size() < 2 * kPairsPerCellMin * grid_.cell_count()) return false;
    if (!KeepsLengths(pair_, grid_, pair_.golden(), pair_.target())) {
      return false;
    }
    rotations_ = grid_.Rotations(pair_.golden(), pair_.target());
    return pair_.AgreesOnSample([this](size_t i) {
      return grid_.RotatedAt(pair_.golden(), i, rotations_[grid_.CellOf(i)]);
    });
  }

  void TestPositions() {
    // All positions are off by the same number. The frequency of the first pair
    // is 1, so its angle is that number.
    Complex first = 0;
    for (size_t p = 0; p < grid_.positions(); ++p) {
      first += rotations_[p * grid_.pair_count()];
    }
    if (std::abs(first) < 0.5 * static_cast<double>(grid_.positions())) return;
    for (int places = -kPositionsOffMax; places <= kPositionsOffMax; ++places) {
      constexpr double kNear = 0.05;
      const double off = std::arg(first * std::polar(1.0, -double(places)));
      if (places == 0 || std::fabs(off) > kNear) continue;
      TestPlaces(places);
    }
  }

  void TestBase() {
    if (grid_.positions() < 2) return;
    const std::vector<double> differences = Differences();
    // The first position need not be 0.
    const size_t steepest = Steepest(differences);
    const double angle = std::arg(rotations_[steepest]);
    const double start = differences[steepest] == 0
                             ? 0
                             : std::round(angle / differences[steepest]);
    for (const double begin : {0.0, start}) {
      if (std::fabs(begin) > 1e6) continue;
      OfferBase(differences, begin);
      if (start == 0) break;
    }
  }

 private:
  // Returns the residual if the position `p` and the pair `i` are rotated by
  // `angle(p, i)`.
  template <typename Angle>
  double ResidualOf(const Angle& angle) const {
    const auto rotation = [&](size_t cell) {
      return std::polar(
          1.0, angle(cell / grid_.pair_count(), cell % grid_.pair_count()));
    };
    const bool may_hold = pair_.AgreesOnSample([&](size_t i) {
      return grid_.RotatedAt(pair_.golden(), i, rotation(grid_.CellOf(i)));
    });
    if (!may_hold) return kInfinite;
    std::vector<Complex> rotations;
    for (size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      rotations.push_back(rotation(cell));
    }
    return grid_.ResidualOf(pair_, pair_.golden(),
                            [&](size_t cell) { return rotations[cell]; });
  }

  void TestPlaces(int places) {
    std::vector<double> frequencies;
    for (size_t i = 0; i < grid_.pair_count(); ++i) {
      Complex sum = 0;
      for (size_t p = 0; p < grid_.positions(); ++p) {
        sum += rotations_[p * grid_.pair_count() + i];
      }
      // Beyond half a turn, an angle does not show its frequency.
      const double angle = std::arg(sum) / places;
      const bool is_known =
          std::abs(places) * (i == 0 ? 1.0 : frequencies[0]) < 3 || angle > 0;
      frequencies.push_back(i == 0 ? 1 : is_known ? angle : 0);
    }
    std::vector<Frequencies> tried;
    if (const auto fit = FitFrequencies(frequencies, grid_.width())) {
      tried.push_back({RoundedBase(fit->base), 1});
    }
    for (const double base : kBases) tried.push_back({base, 1});
    for (const Frequencies& one : tried) {
      const std::vector<double> of = FrequenciesOf(one);
      const double residual =
          ResidualOf([&](size_t /*p*/, size_t i) { return places * of[i]; });
      if (!pair_.Holds(residual)) continue;
      pair_.Offer(
          {Kind::kRopePositions,
           fmt::format("rotary embeddings of positions {} {}", std::abs(places),
                       places > 0 ? "later" : "earlier"),
           {static_cast<double>(places)},
           2,
           1,
           residual});
      return;
    }
  }

  // Returns by how much the frequency of each pair differs: the angle from one
  // position to the next.
  std::vector<double> Differences() const {
    std::vector<double> out;
    for (size_t i = 0; i < grid_.pair_count(); ++i) {
      Complex sum = 0;
      for (size_t p = 0; p + 1 < grid_.positions(); ++p) {
        sum += std::conj(rotations_[p * grid_.pair_count() + i]) *
               rotations_[(p + 1) * grid_.pair_count() + i];
      }
      double difference = std::arg(sum);
      // With the first estimate, a line through all positions is exact.
      Complex begin = rotations_[i];
      double xx = 0;
      double xy = 0;
      for (size_t p = 1; p < grid_.positions(); ++p) {
        const auto at = static_cast<double>(p);
        const double off =
            std::arg(std::conj(begin) * rotations_[p * grid_.pair_count() + i] *
                     std::polar(1.0, -difference * at));
        xx += at * at;
        xy += at * off;
      }
      out.push_back(difference + (xx > 0 ? xy / xx : 0));
    }
    return out;
  }

  static size_t Steepest(const std::vector<double>& differences) {
    size_t out = 0;
    for (size_t i = 0; i < differences.size(); ++i) {
      if (std::fabs(differences[i]) > std::fabs(differences[out])) out = i;
    }
    return out;
  }

  void OfferBase(const std::vector<double>& differences, double begin) {
    const double residual = LinearResidual(differences, begin);
    if (!pair_.Holds(residual)) return;
    Fit best = {Kind::kRopeBase,
                "rotary embeddings of other frequencies",
                {},
                static_cast<double>(grid_.pair_count()),
                grid_.pair_count(),
                residual};
    for (const double base : kBases) {
      Fit fit = FitOfBase(differences, begin, base);
      if (!pair_.Holds(fit.residual)) continue;
      // Several golden bases can fit, because of the noise. The first ones are
      // the most common.
      if (fit.complexity < best.complexity ||
          2 * fit.residual < best.residual) {
        best = std::move(fit);
      }
    }
    pair_.Offer(std::move(best));
  }

  Fit FitOfBase(const std::vector<double>& differences, double begin,
                double base) const {
    const Frequencies golden = {base, 1};
    std::vector<double> frequencies;
    for (size_t i = 0; i < differences.size(); ++i) {
      frequencies.push_back(golden.Of(i, grid_.width()) + differences[i]);
    }
    Fit out;
    const auto target = FitFrequencies(frequencies, grid_.width());
    if (!target.has_value()) return out;
    const bool has_scale = std::fabs(target->scale - 1) > kScaleTolerance;
    Frequencies shown = *target;
    if (!has_scale) shown = {RoundedBase(target->base), 1};
    if (has_scale && std::fabs(std::log(target->base / base)) < 0.05) {
      shown.base = base;
    }
    std::vector<double> changed;
    for (size_t i = 0; i < differences.size(); ++i) {
      changed.push_back(shown.Of(i, grid_.width()) -
                        golden.Of(i, grid_.width()));
    }
    out.kind = Kind::kRopeBase;
    out.text = BaseText(base, shown, has_scale);
    out.parameters = {base, shown.base};
    out.complexity = has_scale ? 3.5 : 3;
    out.fitted = 2;
    out.residual = LinearResidual(changed, begin);
    return out;
  }

  static constexpr double kScaleTolerance = 0.01;

  static std::string BaseText(double base, const Frequencies& found,
                              bool has_scale) {
    if (!has_scale) {
      return fmt::format(
          "rotary embeddings with base {:.6g} in place of {:.6g}", found.base,
          base);
    }
    // It is not known whether golden is rotated.
    if (std::fabs(found.scale - 2) <= kScaleTolerance) {
      return "rotary embeddings once more, or of positions * 2";
    }
    return fmt::format("rotary embeddings of positions * {:.4g}", found.scale);
  }

  double LinearResidual(const std::vector<double>& differences,
                        double begin) const {
    return ResidualOf([&](size_t p, size_t i) {
      return (begin + static_cast<double>(p)) * differences[i];
    });
  }

  std::vector<double> FrequenciesOf(const Frequencies& of) const {
    std::vector<double> out;
    for (size_t i = 0; i < grid_.pair_count(); ++i) {
      out.push_back(of.Of(i, grid_.width()));
    }
    return out;
  }

  Examination& pair_;
  const RotationGrid grid_;
  std::vector<Complex> rotations_;
};

// Tests whether the target rotates other pairs of the input of the op, by the
// angles of the golden run.
void TestPairs(Examination& pair, const std::vector<double>& x, size_t dim) {
  for (const RopePairs used : {RopePairs::kHalves, RopePairs::kAdjacent}) {
    const RotationGrid golden(pair.shape(), dim, used);
    if (pair.size() < 2 * kPairsPerCellMin * golden.cell_count()) continue;
    if (!KeepsLengths(pair, golden, x, pair.golden())) continue;
    const auto rotations = golden.Rotations(x, pair.golden());
    double squares = 0;
    golden.ForEachPair(pair.size(), [&](size_t cell, size_t i, size_t j) {
      const double a = golden.RotatedAt(x, i, rotations[cell]);
      const double b = golden.RotatedAt(x, j, rotations[cell]);
      squares += (a - pair.golden()[i]) * (a - pair.golden()[i]) +
                 (b - pair.golden()[j]) * (b - pair.golden()[j]);
    });
    if (!(std::sqrt(squares) <= pair.limit() * pair.golden_norm())) continue;
    const RopePairs other =
        used == RopePairs::kHalves ? RopePairs::kAdjacent : RopePairs::kHalves;
    const RotationGrid target(pair.shape(), dim, other);
    pair.Offer({Kind::kRopePairs,
                fmt::format("rotary embeddings of {} in place of {}",
                            NameOf(other), NameOf(used)),
                {},
                0,
                0,
                target.ResidualOf(
                    pair, x, [&](size_t cell) { return rotations[cell]; })});
  }
}

// Returns the frequencies of a table of cosines or sines: those of its second
// row, whose position is 1.
std::vector<double> FrequenciesOf(std::span<const double> table, size_t width,
                                  bool is_cosine) {
  std::vector<double> out;
  for (size_t i = 0; i < width / 2; ++i) {
    const double value = std::clamp(table[width + i], -1.0, 1.0);
    out.push_back(is_cosine ? std::acos(value) : std::asin(value));
  }
  return out;
}

}  // namespace

void TestRotations(Examination& pair) {
  const auto& shape = pair.shape();
  if (!pair.is_finite() || shape.size() < 2 || shape.back() % 2 != 0 ||
      shape.back() < 4 ||
      static_cast<size_t>(shape.back()) > kRotatedWidthMax) {
    return;
  }
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim) {
    for (const ExaminedInput& input : pair.inputs()) {
      if (input.elements.shape == shape) {
        TestPairs(pair, input.elements.values, dim);
      }
    }
    for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kAdjacent}) {
      RotationTest test(pair, dim, pairs);
      if (!test.IsRotated()) continue;
      test.TestPositions();
      test.TestBase();
    }
  }
}

void TestRotationTables(Examination& pair) {
  const auto& shape = pair.shape();
  const Slices rows = RowsOf(shape);
  if (!pair.is_finite() || shape.size() < 2 || rows.inner % 2 != 0 ||
      rows.inner < 4 || shape[shape.size() - 2] < 3) {
    return;
  }
  const double first = pair.golden()[0];
  for (size_t i = 0; i < rows.inner; ++i) {
    if (pair.golden()[i] != first || pair.target()[i] != first) return;
  }
  if (first != 0 && first != 1) return;
  const bool is_cosine = first == 1;
  const auto golden = FitFrequencies(
      FrequenciesOf(pair.golden(), rows.inner, is_cosine), rows.inner);
  const auto target = FitFrequencies(
      FrequenciesOf(pair.target(), rows.inner, is_cosine), rows.inner);
  if (!golden.has_value() || !target.has_value()) return;
  const auto positions = static_cast<size_t>(shape[shape.size() - 2]);
  const auto offer = [&](const Frequencies& shown, const std::string& text,
                         double complexity) {
    pair.Offer({Kind::kRopeBase,
                text,
                {RoundedBase(golden->base), shown.base},
                complexity,
                2,
                pair.ResidualOf([&](size_t i) {
                  const auto position =
                      static_cast<double>(i / rows.inner % positions);
                  const double angle =
                      position * shown.Of(i % (rows.inner / 2), rows.inner);
                  return is_cosine ? std::cos(angle) : std::sin(angle);
                })});
  };
  constexpr double kSameScale = 0.02;
  if (std::fabs(target->scale - golden->scale) > kSameScale) {
    offer(*target,
          fmt::format("a rotary table of positions * {:.4g}",
                      target->scale / golden->scale),
          2.5);
  }
  // Angles of types with few digits do not determine a base exactly.
  std::vector<double> bases(kBases.begin(), kBases.end());
  bases.push_back(RoundedBase(target->base));
  for (const double base : bases) {
    constexpr double kNear = 2;
    if (base < target->base / kNear || base > target->base * kNear) continue;
    offer({base, 1},
          fmt::format("a rotary table with base {:.6g} in place of {:.6g}",
                      base, RoundedBase(golden->base)),
          2);
  }
}

}  // namespace msitd::compare::explain
