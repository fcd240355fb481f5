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

// What OneOf or ListOf of an option takes; none of any other option.
std::vector<std::string> WordsOf(const CLI::Option& option);

// The type of an option as help shows it, without its checks.
std::string TypeOf(const CLI::Option& option);

}  // namespace msitd::ctl
