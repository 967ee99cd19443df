#include "apps/run/page/html.h"

#include "apps/run/page/chart.h"

namespace causeway::run {

const char* const kHtmlHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { padding: .25em .6em; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; margin: 1em 0; } svg text { font-size: 11px; } svg .grid { stroke: #e4e4e4; }
pre { background: #f6f6f6; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: #2a6b32; } .bad { color: #b3261e; font-weight: bold; }
</style>
)";

std::string html_table(const HtmlRow& header, const std::vector<HtmlRow>& rows) {
  const auto line = [](const HtmlRow& cells, const std::string& tag) {
    std::string out = "<tr>";
    for (const std::string& text : cells)
      out += "<" + tag + ">" + escape_html(text) + "</" + tag + ">";
    return out + "</tr>\n";
  };
  std::string out = "<table>\n" + line(header, "th");
  for (const HtmlRow& row : rows) out += line(row, "td");
  return out + "</table>\n";
}

}  // namespace causeway::run
