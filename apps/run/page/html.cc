#include "apps/run/page/html.h"

namespace causeway::run {

const char* const kHtmlHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark; --text: #222; --page: #fff; --rule: #ddd; --grid: #e4e4e4; --box: #f6f6f6;
  --good: #2a6b32; --bad: #b3261e; --c0: #0b6fa4; --c1: #d1495b; --c2: #3a7d44; --c3: #8a5a9e; --c4: #b06f0e;
  --c5: #4a4a4a; --c6: #15806f; --c7: #a23e48; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e3e3; --page: #17191c; --rule: #3a3d42; --grid: #2c2f34;
  --box: #22252a; --good: #7fce8b; --bad: #ff9389; --c0: #5db8ea; --c1: #ff8b99; --c2: #7fce8b; --c3: #cda3e0;
  --c4: #f0b45a; --c5: #bdbdbd; --c6: #56cdb9; --c7: #f2a1a8; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em; color: var(--text);
  background: var(--page); overflow-wrap: break-word; }
.wide { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .25em .6em; border-bottom: 1px solid var(--rule); text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child, .text th:last-child, .text td:last-child { text-align: left; }
.text td:last-child { white-space: normal; }
svg { width: 100%; } .narrow { display: none; }
@media (max-width: 600px) { .narrow { display: block; } .broad { display: none; } }
svg text { font-size: 11px; fill: var(--text); } svg .grid { stroke: var(--grid); }
svg polyline { fill: none; stroke: var(--c); stroke-width: 1.5; } svg circle, svg g text { fill: var(--c); }
.band { fill: var(--c0); fill-opacity: .1; }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); } .s3 { --c: var(--c3); } .s4 { --c: var(--c4); }
.s5 { --c: var(--c5); } .s6 { --c: var(--c6); } .s7 { --c: var(--c7); }
pre { background: var(--box); padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: bold; }
</style>
)";

namespace {

std::string table_of_class(const std::string& style, const HtmlRow& header,
                           const std::vector<HtmlRow>& rows) {
  const auto line = [](const HtmlRow& cells, const std::string& tag) {
    std::string out = "<tr>";
    for (const std::string& text : cells)
      out += "<" + tag + ">" + escape_html(text) + "</" + tag + ">";
    return out + "</tr>\n";
  };
  std::string out = "<div class=\"wide\"><table" + style + ">\n" + line(header, "th");
  for (const HtmlRow& row : rows) out += line(row, "td");
  return out + "</table></div>\n";
}

}  // namespace

std::string html_table(const HtmlRow& header, const std::vector<HtmlRow>& rows) {
  return table_of_class("", header, rows);
}

std::string html_text_table(const HtmlRow& header, const std::vector<HtmlRow>& rows) {
  return table_of_class(" class=\"text\"", header, rows);
}

std::string html_chart(const Chart& chart) {
  HtmlRow header{chart.x_label};
  for (const Series& series : chart.series) header.push_back(series.name);
  return "<div class=\"wide\">" + svg(chart, kBroad) + svg(chart, kNarrow) +
         "</div>\n<details><summary>" + escape_html(chart.title) + " in figures</summary>\n" +
         html_table(header, table_of(chart)) + "</details>\n";
}

}  // namespace causeway::run
