// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Properties of ops and modules that follow from their names and classes. Names
// are foreign text: an unknown name has none of these properties.
namespace msitd::origin {

// Returns whether the op is a function of torch or an operator of ATen, which
// has no state, and whose tensors are all arguments.
bool IsFunction(std::string_view op);

// Returns whether the op is a function that exchanges data with other ranks.
bool IsCollective(std::string_view op);

// Returns the name of a function without its prefix and without the underscores
// of operators and of functions that work in place: `log` for `Tensor.log_`,
// `mul` for `Tensor.__imul__`.
std::string_view BaseName(std::string_view op);

// Returns whether an op writes -Inf on purpose: `masked_fill`, `full`, `where`.
bool WritesMask(std::string_view op);

// Returns whether an op returns -Inf for zeros: `log`.
bool IsLogarithm(std::string_view op);

// Returns whether an op returns memory that was not written: `empty`.
bool ReturnsUnwritten(std::string_view op);

// Returns whether an op or a class of modules is a softmax or an attention,
// which returns NaN for a row that is fully masked.
bool IsSoftmax(std::string_view op_or_class);

// Returns whether a class of modules computes only with its arguments, its
// parameters and its buffers, and does not communicate with other ranks. True
// for the modules of torch.nn.
bool IsPlainModule(std::string_view module_class);

// Returns whether -Inf in the results of a class of modules is an overflow and
// not a mask: layers of torch.nn that multiply and add, and classes with the
// names of such layers.
bool IsArithmeticModule(std::string_view module_class);

}  // namespace msitd::origin
