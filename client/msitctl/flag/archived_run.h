// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msitd::msitctl {

// An archived run: the URL of an archive, or several URLs separated by commas,
// and the name of the run there.
struct ArchivedRunName {
  std::string url;
  std::string run;

  friend bool operator==(const ArchivedRunName&,
                         const ArchivedRunName&) = default;
};

// Returns the possible interpretations of `text`, such as
// `s3://bucket/runs/golden`. Names of runs and URLs may both contain slashes,
// so there is one interpretation for each slash, ordered by descending length
// of the URL. Empty if `text` is not a URL followed by a run.
std::vector<ArchivedRunName> ReadingsOf(const std::string& text);

// Returns true if `text` is a URL, with or without a run.
bool IsUrl(const std::string& text);

}  // namespace msitd::msitctl
