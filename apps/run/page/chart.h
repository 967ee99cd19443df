// Line charts as inline SVG.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::run {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
  bool dots = false;                              // single points instead of a line
  // Colour and dashes: of a region the same in all charts. None: by its place in the chart.
  std::optional<std::size_t> style = std::nullopt;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool from_zero = false;                                        // the y axis begins at 0
  bool log_x = false;                                            // all x above 0
  std::optional<std::pair<double, double>> band = std::nullopt;  // of x, shaded
};

// In units of its text's size, so that the text can be read where a screen is as wide.
struct ChartSize {
  const char* name;  // class of the page, which shows one of them
  double width, height, left;
  int x_ticks;
  std::size_t points_max;  // per series; more than a screen can show
};
inline constexpr ChartSize kBroad{"broad", 720, 300, 64, 8, 1'000};
inline constexpr ChartSize kNarrow{"narrow", 360, 260, 52, 4, 300};

// Colours are those of the page (html.h): classes s0 to s7.
std::string svg(const Chart& chart, const ChartSize& size = kBroad);
// The same in figures: a row for each of some x, a column for each series.
std::vector<std::vector<std::string>> table_of(const Chart& chart);
std::string escape_html(const std::string& text);

// Round numbers that divide [low, high] into about `count` parts: 1, 2 or 5 times a power of ten
// apart.
std::vector<double> ticks(double low, double high, int count);
// The same on a logarithmic axis: 1, 2 and 5 times powers of ten within [low, high].
std::vector<double> log_ticks(double low, double high);

}  // namespace causeway::run
