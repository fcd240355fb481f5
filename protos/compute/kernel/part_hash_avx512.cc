// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/part_hash-inl.h"

namespace msitd::compute {

const PartHashFunctions& Avx512PartHash() { return kFunctions; }

}  // namespace msitd::compute
