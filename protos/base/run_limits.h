// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Bounds of what a run carries besides its tensors. Whatever makes a run, a
// request, another daemon or an archive, is held to them.
namespace msitd {

// Labels of a run.
inline constexpr size_t kRunLabelsMax = 64;
// Bytes of a label: key and value together.
inline constexpr size_t kRunLabelBytesMax = 1024;
// Bytes of an encoded capture policy.
inline constexpr size_t kCapturePolicyBytesMax = size_t{1} << 20;
// Bytes of the name of an owner.
inline constexpr size_t kOwnerBytesMax = 1024;

// True for a label that a run can carry.
template <typename Text>
bool IsRunLabel(const Text& key, const Text& value) {
  return !key.empty() && key.size() + value.size() <= kRunLabelBytesMax;
}

}  // namespace msitd
