// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Limits of a run's data other than tensors. They apply to all runs, whether
// created by a request, by another daemon or from an archive.
namespace msitd {

// Maximum number of labels of a run.
inline constexpr size_t kRunLabelsMax = 64;
// Maximum size of a label in bytes, key and value together.
inline constexpr size_t kRunLabelBytesMax = 1024;
// Maximum size of an encoded capture policy in bytes.
inline constexpr size_t kCapturePolicyBytesMax = size_t{1} << 20;
// Maximum length of the name of an owner in bytes.
inline constexpr size_t kOwnerBytesMax = 1024;

// True for a label within these limits.
template <typename Text>
bool IsRunLabel(const Text& key, const Text& value) {
  return !key.empty() && key.size() + value.size() <= kRunLabelBytesMax;
}

}  // namespace msitd
