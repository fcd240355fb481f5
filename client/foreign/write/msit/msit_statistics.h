// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "msitd/v1/tensor_service.pb.h"

// Lines of statistics.csv of msit, which end with CRLF.
namespace msitd::write {

std::string MsitStatisticsHeader();

// Returns the line of a tensor, or of the statistics that another tool
// computed. `stem` is the name of its file without the extension, `type` the
// class of the module.
std::string MsitStatisticsLine(const v1::Tensor& record, std::string_view stem,
                               std::string_view type);

}  // namespace msitd::write
