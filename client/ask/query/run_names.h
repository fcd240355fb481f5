// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"

namespace msitd::ask {

class Connection;

// Suggests a run for a name that no run has: `; did you mean golden?`. States
// if there are no runs. Empty if no name is similar, or if the daemon does not
// respond.
std::string RunLike(Connection& connection, const std::string& name);

// The same for the name of a run that exists. Never suggests that run itself.
std::string RunLikeAnother(Connection& connection, const std::string& name);

// Explains why `tensor`, a resource name, was not found: returns the error of
// its run if something is wrong with that, else `outcome`.
Outcome ErrorOfTensor(Connection& connection, const std::string& tensor,
                      Outcome outcome);

}  // namespace msitd::ask
