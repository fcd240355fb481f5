// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/tensor_service.pb.h"

// Tensors in the order in which a program made them.
//
// A daemon lists tensors in the order of its index: rank, device, token, and
// ops by their first appearance. A module appears with its first input, so the
// outputs of a container are listed before everything that was computed inside
// it. The first tensor with a NaN is then always the output of the whole model.
// In execution order it is the output of the op that made it. Tensors are
// ordered by token, then by their position in the execution order of their
// rank, where an output stands at the end of its call, then by rank: ranks run
// the same program side by side.
namespace msitd::msitctl {

// Tensors that are kept in order, unless --limit says fewer.
inline constexpr int64_t kOrderedTensorsMax = 100'000;

// True if `a` comes before `b` in execution order. Ties are ordered by name.
bool IsExecutedBefore(const v1::Tensor& a, const v1::Tensor& b);

// The tokens of `filter` up to `last`. At least one of them is.
v1::TensorFilter UpToToken(v1::TensorFilter filter, int64_t last);

// Prints the tensors of `request` in execution order, like PrintPages. All of
// them are looked at, unless a limit is reached before: then those of later
// tokens are not. A note says how many there is no room for.
ask::Outcome PrintInExecutionOrder(Invocation& invocation,
                                   ask::ListLayout layout,
                                   const ListFlags& flags,
                                   v1::ListTensorsRequest request,
                                   const std::function<void()>& when_empty);

}  // namespace msitd::msitctl
