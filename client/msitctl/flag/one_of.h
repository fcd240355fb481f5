// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace msitd::msitctl {

// Accept one of `words`, or a list of them separated by commas. The error
// describes any other word. Completion offers `words`.
CLI::Validator OneOf(std::vector<std::string> words);
CLI::Validator ListOf(std::vector<std::string> words);

// Accepts anything. Completion offers `words` for a list separated by commas.
CLI::Validator Offers(std::vector<std::string> words);

// Represents the names of all metrics of the daemon among the words of an
// option.
inline constexpr char kMetricWord[] = "METRIC";

// Returns the words of an option's OneOf, ListOf or Offers; none if it has none
// of these.
std::vector<std::string> WordsOf(const CLI::Option& option);

// Returns the type of an option as help shows it, without its checks.
std::string TypeOf(const CLI::Option& option);

}  // namespace msitd::msitctl
