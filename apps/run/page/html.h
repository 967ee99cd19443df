// What the pages of reports share.
#pragma once

#include <string>
#include <vector>

#include "apps/run/page/chart.h"

namespace causeway::run {

// Up to where <title> goes.
extern const char* const kHtmlHead;

using HtmlRow = std::vector<std::string>;
// A chart, and its figures in a table that opens when it is asked for.
std::string html_chart(const Chart& chart);
std::string html_table(const HtmlRow& header, const std::vector<HtmlRow>& rows);
// The last column is a text, which has several lines.
std::string html_text_table(const HtmlRow& header, const std::vector<HtmlRow>& rows);

}  // namespace causeway::run
