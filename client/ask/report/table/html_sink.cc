// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <utility>

#include "client/ask/report/markup_text.h"
#include "client/ask/report/table/sinks.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// Nothing may be loaded, and nothing runs.
constexpr std::string_view kHead =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'\">\n<title>Comparison</title>\n<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 0.9rem system-ui, sans-serif; }\n"
    "table { border-collapse: collapse; }\n"
    "th { position: sticky; top: 0; background: Canvas; text-align: left; }\n"
    "th, td { border: 1px solid GrayText; padding: 0.1rem 0.4rem; }\n"
    "</style>\n</head>\n<body>\n<table>\n<thead>\n";

class HtmlSink final : public TableSink {
 public:
  explicit HtmlSink(ReportSink sink) : sink_(std::move(sink)) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    std::string line(kHead);
    line += "<tr>";
    for (const std::string& heading : headings) {
      line += "<th>";
      line += MarkupText(heading);
    }
    return sink_(line + "\n</thead>\n<tbody>\n");
  }

  absl::Status Add(const Cells& cells) override {
    std::string line = "<tr>";
    for (const Cell& cell : cells) {
      line += "<td>";
      line += MarkupText(TextOf(cell));
    }
    return sink_(line + "\n");
  }

  absl::Status Finish() override {
    return sink_("</tbody>\n</table>\n</body>\n</html>\n");
  }

 private:
  const ReportSink sink_;
};

}  // namespace

std::unique_ptr<TableSink> MakeHtmlSink(ReportSink sink) {
  return std::make_unique<HtmlSink>(std::move(sink));
}

}  // namespace msitd::ask
