// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::names {

// Orders names of ops for lack of a recorded order, as calls of a model mostly
// end: numbers by their size, so that `layers.2` is before `layers.10`, and an
// op after its parts, so that `layers.2.fc` is before `layers.2`. Parts of a
// name are separated by dots or slashes. This is for people who read a list: it
// proves nothing about what was executed first.
//
// A strict weak order in which no two different names are equal.
bool EndsBefore(std::string_view a, std::string_view b);

// Orders names with numbers by the size of these, as people do: `step_2` before
// `step_10`. Less than 0, 0 or more than 0; 0 also for `01` and `1`.
int CompareNatural(std::string_view a, std::string_view b);

}  // namespace msitd::names
