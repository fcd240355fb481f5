// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/tensor_service.pb.h"

// Lists tensors in the order in which a program computed them.
//
// A daemon lists tensors in the order of its index: rank, device, token, and
// ops by their first appearance. A module appears with its first input, so the
// outputs of a container are listed before everything that was computed inside
// it. The first tensor with a NaN is then always the output of the whole model.
// In execution order, it is the output of the op that produced the NaN. Tensors
// are ordered by token, then by their position in the execution order of their
// rank, where an output is at the end of its call, then by rank, because ranks
// run the same program in parallel.
namespace msitd::msitctl {

// Tensors that are kept for sorting, unless --limit is lower.
inline constexpr int64_t kOrderedTensorsMax = 100'000;

// Returns true if `a` precedes `b` in execution order. Ties are ordered by
// name.
bool IsExecutedBefore(const v1::Tensor& a, const v1::Tensor& b);

// Returns `filter` restricted to the tokens up to `last`. At least one of its
// tokens is.
v1::TensorFilter UpToToken(v1::TensorFilter filter, int64_t last);

// Prints the tensors of `request` in execution order, like PrintPages. All
// tensors are read, unless a limit is reached before; tensors of later tokens
// are skipped then. A note reports how many tensors were omitted.
ask::Outcome PrintInExecutionOrder(Invocation& invocation,
                                   ask::ListLayout layout,
                                   const ListFlags& flags,
                                   v1::ListTensorsRequest request,
                                   const std::function<void()>& when_empty);

}  // namespace msitd::msitctl
