// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// Returns whether an op is a function of torch or torch_npu, by the prefixes
// with which register_api and msprobe record these: `Torch.log`,
// `Tensor.__mul__`.
bool IsTorchFunction(std::string_view op);

}  // namespace msitd
