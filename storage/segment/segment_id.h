// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msitd::storage {

// Number of a segment file of the store, from 1.
enum class SegmentId : uint64_t {};

constexpr uint64_t ToNumber(SegmentId id) { return static_cast<uint64_t>(id); }

}  // namespace msitd::storage
