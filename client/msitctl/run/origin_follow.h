// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::msitctl {

// Searches for the origin again and again while the run is being recorded.
// Waits for the run if it does not exist.
//
// A record that has not arrived yet, such as the result of a call or the tensor
// of another rank, can change an origin. An origin is therefore only returned
// once every rank has a later token or no stream, or nothing has arrived for
// 10 s. Without an origin, ends when the run is sealed, or when no process has
// recorded it for 10 s.
//
// Continues if the daemon restarts. Errors: those of the calls.
ask::Outcome FollowOrigin(Invocation& invocation,
                          const v1::FindOriginRequest& request,
                          v1::FindOriginResponse& answer);

}  // namespace msitd::msitctl
