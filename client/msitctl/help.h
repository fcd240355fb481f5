// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace msitd::msitctl {

// Formats help with the examples first. The footer of a verb contains its
// examples.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
};

// Returns the full name of a command, such as "msitctl run get".
std::string FullName(const CLI::App& app);

}  // namespace msitd::msitctl
