// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/query/outcome.h"

namespace msitd::ctl {

class Connection;

// Returns which run may be meant by a name that no run has: `; did you mean
// golden?`. Empty if none is near, or the daemon does not answer.
std::string RunLike(Connection& connection, const std::string& name);

// The same for a run that is there.
std::string RunLikeAnother(Connection& connection, const std::string& name);

// Returns `outcome`, or what is wrong with the run in `tensor`, the name of a
// tensor that is not there.
Outcome ErrorOfTensor(Connection& connection, const std::string& tensor,
                      Outcome outcome);

}  // namespace msitd::ctl
