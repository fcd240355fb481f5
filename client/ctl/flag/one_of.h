// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace msitd::ctl {

// Takes one of `words`, or a list of them with commas in between, and says what
// is wrong with any other. Completion offers them.
CLI::Validator OneOf(std::vector<std::string> words);
CLI::Validator ListOf(std::vector<std::string> words);

// Takes anything; completion offers `words` for a list with commas in between.
CLI::Validator Offers(std::vector<std::string> words);

// Among the words of an option: the names of all metrics of the daemon.
inline constexpr char kMetricWord[] = "METRIC";

// What OneOf, ListOf or Offers of an option has; none of any other option.
std::vector<std::string> WordsOf(const CLI::Option& option);

// The type of an option as help shows it, without its checks.
std::string TypeOf(const CLI::Option& option);

}  // namespace msitd::ctl
