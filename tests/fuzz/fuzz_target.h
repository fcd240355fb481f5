// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Passes one input to the code under test. Ends the process if the code
// violates its contract; otherwise returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace msitd::fuzz {

// Returns the initial inputs for mutations: valid data, as received from peers
// that follow the specification. Every target defines this function.
std::vector<std::string> Seeds();

// Reads an input from its beginning. Reads after its end return zeros or
// nothing.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  std::string_view Take(size_t bytes) {
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(out.size());
    return out;
  }

  template <typename Number>
  Number Get() {
    Number value = 0;
    const std::string_view bytes = Take(sizeof(value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

 private:
  std::string_view rest_;
};

// Returns the bytes of a number or a struct, for building inputs.
template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace msitd::fuzz
