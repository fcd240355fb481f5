// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::names {

// Orders names of ops for lack of a recorded order, in the way in which calls
// of a model usually end: numbers by value, so that `layers.2` is before
// `layers.10`, and an op after its parts, so that `layers.2.fc` is before
// `layers.2`. Parts of a name are separated by dots or slashes. The order is
// for lists that people read. It does not prove which op was executed first.
//
// A strict weak order in which no two different names are equal.
bool EndsBefore(std::string_view a, std::string_view b);

// Compares names with numbers by value: `step_2` is before `step_10`. Returns a
// number less than, equal to or greater than 0; also 0 for `01` and `1`.
int CompareNatural(std::string_view a, std::string_view b);

}  // namespace msitd::names
