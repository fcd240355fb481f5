// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msitd::ctl {

// Parts `text`, such as `s3://bucket/runs/golden`, at its last slash into the
// URL of an archive and the run in it. False if it is no URL with a run behind
// it.
bool PartUrl(const std::string& text, std::string& url, std::string& run);

// True if `text` is a URL, with or without a run.
bool IsUrl(const std::string& text);

}  // namespace msitd::ctl
