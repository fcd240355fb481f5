// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msitd::msitctl {

// An archived run: the URL of an archive, or several of them with commas in
// between, and the name of the run there.
struct ArchivedRunName {
  std::string url;
  std::string run;

  friend bool operator==(const ArchivedRunName&,
                         const ArchivedRunName&) = default;
};

// Returns what `text`, such as `s3://bucket/runs/golden`, can mean. Names of
// runs and URLs both have slashes, so there is one reading for each slash: the
// one with the longest URL comes first. Empty if `text` is no URL with a run
// after it.
std::vector<ArchivedRunName> ReadingsOf(const std::string& text);

// True if `text` is a URL, with or without a run.
bool IsUrl(const std::string& text);

}  // namespace msitd::msitctl
