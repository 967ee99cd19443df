// What the pages of reports share.
#pragma once

#include <string>
#include <vector>

namespace causeway::run {

// Up to where <title> goes.
extern const char* const kHtmlHead;

using HtmlRow = std::vector<std::string>;
std::string html_table(const HtmlRow& header, const std::vector<HtmlRow>& rows);

}  // namespace causeway::run
