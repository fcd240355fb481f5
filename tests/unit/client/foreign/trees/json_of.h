// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/foreign/trees/json/json_value.h"

namespace msitd::trees {

// Parses a JSON text.
inline JsonValue JsonOf(std::string json) {
  const formats::MemorySource bytes(std::move(json));
  JsonReader reader(bytes);
  auto value = ReadJsonValue(reader);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *std::move(value) : JsonValue();
}

}  // namespace msitd::trees
