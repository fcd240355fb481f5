// SPDX-License-Identifier: Apache-2.0
// Records one tensor through the C++ face.
//
// usage: face ENDPOINT RUN
#include <cstdint>
#include <cstdio>
#include <vector>

#include "msit/msit.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  msit_options options = msit::DefaultOptions();
  options.endpoint = argv[1];
  options.run = argv[2];
  msit::Client client;
  const std::vector<float> data = {1, 2, 3};
  const int64_t dims[] = {3};
  if (!msit::Client::Open(options, &client).ok() ||
      !client.Record<float>({.op = "face"}, data, dims).ok() ||
      !client.Close(std::chrono::seconds(10)).ok()) {
    std::fprintf(stderr, "face: %s\n", msit_last_error());
    return 1;
  }
  return 0;
}
