// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Determines the order in which the modules of a token ran. msit writes the
// files of a module when its call ends, so the times of files contain the order
// unless the folder was copied. In a copy, they contain the order in which
// files were copied, and nothing marks a copy.
//
// The call of a module must end after those of its parts. The original passes
// this check by construction, and a copy in the order of names or of the
// directory only by accident. Times are trusted if an accident is unlikely, and
// if names determine the order of any two modules with the same time. A folder
// of modules without parts therefore has no known order.
namespace msitd::trees {

// The folder of a module of a token.
struct MsitModule {
  std::string name;
  // The time when its newest file was written, in nanoseconds; 0 if there is
  // none.
  int64_t time = 0;
};

// Orders modules by the lines of `text`, each of which names a module. If the
// text lacks some modules, returns false and puts these after the others,
// ordered by names::EndsBefore.
bool OrderByText(std::string_view text, std::vector<MsitModule>& modules);

// Orders modules by their times. Returns true if the times can be trusted, or
// if each module is a part of another, which determines the order. Otherwise
// returns false, and orders modules by their times if these pass the checks,
// and by names::EndsBefore if not.
bool OrderByTime(std::vector<MsitModule>& modules);

}  // namespace msitd::trees
