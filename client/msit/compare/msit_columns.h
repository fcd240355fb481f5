// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Positions in the columns of msit's report.
namespace msitd::msit_command {

inline constexpr size_t kColumnCount = 24;
inline constexpr size_t kIdColumns = 2;  // token_id and data_id.
inline constexpr size_t kGoldenPath = 2;
inline constexpr size_t kGoldenDType = 4;
inline constexpr size_t kMyPath = 9;
inline constexpr size_t kMyDType = 11;
inline constexpr size_t kMaxAbsolute = 19;
inline constexpr size_t kReason = 23;

}  // namespace msitd::msit_command
