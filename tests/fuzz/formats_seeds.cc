// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/formats_seeds.h"

#include "tests/unit/client/import/formats/read_all.h"

namespace msitd::fuzz {
namespace {

using formats::NpyOf;

std::string Npy(const std::string& descr, const std::string& order) {
  return NpyOf("{'descr': " + descr + ", 'fortran_order': " + order +
                   ", 'shape': (2, 3), }     \n",
               "0123456789abcdefghijklmn");
}

}  // namespace

std::vector<std::string> FormatsSeeds() {
  return {Npy("'<f4'", "False"), Npy("'>i2'", "True"), Npy("'|O'", "False"),
          Npy("[('a', '<f4')]", "False")};
}

}  // namespace msitd::fuzz
