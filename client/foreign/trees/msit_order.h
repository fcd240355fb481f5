// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// In which order the modules of a token ran. msit writes the files of a module
// when its call ends, so the times of files say it, unless the folder was
// copied: then they say in which order files were copied. Nothing marks a copy.
// What can be checked is that the call of a module ends after those of its
// parts: the original passes this by construction, a copy in the order of names
// or of the directory only by accident. Times are trusted if an accident is
// unlikely, and if no two modules have the same time that names do not put in
// order. So a folder of modules without parts of each other has no known order.
namespace msitd::trees {

// The folder of a module of a token.
struct MsitModule {
  std::string name;
  // When its newest file was written, in nanoseconds; 0 if there is none.
  int64_t time = 0;
};

// Orders modules by the lines of `text`, which names each of them. False, and
// ordered by names::EndsBefore behind those that it names, if it lacks some.
bool OrderByText(std::string_view text, std::vector<MsitModule>& modules);

// Orders modules by their times and returns true if these can be trusted, or if
// each module is a part of another, which says the order. Otherwise returns
// false, and modules are ordered by their times if these pass the checks, else
// by names::EndsBefore.
bool OrderByTime(std::vector<MsitModule>& modules);

}  // namespace msitd::trees
