// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/table/cell.h"

#include <fmt/format.h>

#include <cmath>

namespace msitd::ask {
namespace {

std::string RealText(const Real& real) {
  switch (real.style) {
    case RealStyle::kShortest:
      return fmt::format("{}", real.value);
    case RealStyle::kPython:
      return PythonFloat(real.value);
    case RealStyle::kMsprobe:
      if (std::isnan(real.value)) return "Nan";
      return (std::isinf(real.value) ? " " : "") + PythonFloat(real.value);
    case RealStyle::kWhole:
      break;
  }
  return fmt::format("{:.0f}", real.value);
}

std::string TruthText(const Truth& truth) {
  if (truth.is_python) return truth.value ? "True" : "False";
  return truth.value ? "true" : "false";
}

}  // namespace

std::string TextOf(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&cell)) {
    return fmt::format("{}", *integer);
  }
  if (const auto* real = std::get_if<Real>(&cell)) return RealText(*real);
  if (const auto* truth = std::get_if<Truth>(&cell)) return TruthText(*truth);
  return {};
}

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace msitd::ask
