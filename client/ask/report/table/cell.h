// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// Cells of a report: what they are, and how they are written as text.
namespace msitd::ask {

// How a number is written as text.
enum class RealStyle {
  kShortest,  // The shortest decimal that reads back: `1`, `1e-05`, `nan`.
  kPython,    // As PythonFloat.
  kMsprobe,   // The same, but `Nan` and, with a blank in front, ` inf`.
  kWhole,     // Without decimals: of integers that are too large for int64.
};

struct Real {
  double value = 0;
  RealStyle style = RealStyle::kShortest;
};

struct Truth {
  bool value = false;
  bool is_python = false;  // `True` for `true`.
};

// An empty cell, a text, an integer, a number or a truth.
using Cell = std::variant<std::monostate, std::string, int64_t, Real, Truth>;
using Cells = std::vector<Cell>;

// The text of a cell, as CSV has it before it is quoted; empty for an empty
// cell.
std::string TextOf(const Cell& cell);

// The shortest decimal that reads back as `value`, as Python prints it: `1.0`,
// `1e-05`, `inf`, `nan`.
std::string PythonFloat(double value);

}  // namespace msitd::ask
