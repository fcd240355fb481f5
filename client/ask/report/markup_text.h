// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msitd::ask {

// Returns `text` so that HTML and XML show it as it is, in an element or in a
// quoted attribute. Does not make it printable; see Printable.
std::string MarkupText(const std::string& text);

}  // namespace msitd::ask
