// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/duration.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

// Texts of `node top`, for one daemon and for many.
namespace msitd::msitctl {

int64_t ToMs(const google::protobuf::Duration& duration);

// Returns the increase of a counter per second. Below 0 only if the daemon was
// restarted.
double Rate(int64_t before, int64_t after, double seconds);

std::string SizeRate(double bytes);
// Returns `-` if `whole` is 0.
std::string Percent(int64_t part, int64_t whole);

// Returns text that overwrites the text that was shown before.
std::string InPlace(std::string_view text);

}  // namespace msitd::msitctl
