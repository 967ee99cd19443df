#include "apps/run/page/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "apps/run/page/format.h"

namespace causeway::run {
namespace {

constexpr double kRight = 16, kTop = 32, kBottom = 44;
constexpr double kLineHeight = 14, kSample = 24;
constexpr std::size_t kRowsMax = 12;  // of a table
// Lines differ without their colours too.
constexpr std::array<const char*, 8> kDashes = {"none",    "7 3",       "2 3", "10 3 2 3",
                                                "4 2 4 6", "12 4 12 2", "1 5", "8 2 2 2 2 2"};

std::size_t style_of(const Chart& chart, std::size_t series) {
  return chart.series[series].style.value_or(series) % kDashes.size();
}
std::string class_of(std::size_t style) {
  return fmt::format("class=\"s{}\"", style);
}

struct Interval {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen_if_empty() {
    if (low > high) low = high = 0;
    if (high - low < 1e-12 * std::max(1.0, std::abs(high))) high = low + 1;
  }
};

class Frame {
 public:
  Frame(const Chart& chart, const ChartSize& size) : size_(size), log_x_(chart.log_x) {
    for (const Series& series : chart.series) {
      for (const auto& [x, y] : series.points) {
        x_.include(scaled(x));
        y_.include(y);
      }
    }
    if (chart.from_zero) y_.include(0);
    x_.widen_if_empty();
    y_.widen_if_empty();
  }
  double x(double value) const {
    return left() + (scaled(value) - x_.low) / (x_.high - x_.low) * (right() - left());
  }
  double y(double value) const {
    return bottom() - (value - y_.low) / (y_.high - y_.low) * (bottom() - kTop);
  }
  double left() const { return size_.left; }
  double right() const { return size_.width - kRight; }
  double bottom() const { return size_.height - kBottom; }
  const ChartSize& size() const { return size_; }
  const Interval& y_range() const { return y_; }
  std::vector<double> x_ticks() const {
    return log_x_ ? log_ticks(std::exp(x_.low), std::exp(x_.high))
                  : ticks(x_.low, x_.high, size_.x_ticks);
  }

 private:
  double scaled(double x) const { return log_x_ ? std::log(x) : x; }

  ChartSize size_;
  bool log_x_;
  Interval x_, y_;
};

// Where there is no room beside the axis's figures, it begins above them.
double title_x(const Frame& frame) {
  return frame.size().width < kBroad.width ? 4 : frame.left();
}

std::string number(double value) {
  return format_fixed(value, 1);
}

std::string line(double x1, double y1, double x2, double y2) {
  return "<line class=\"grid\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\"/>";
}

std::string label(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escape_html(text) + "</text>";
}

std::string tick_text(double value, double step) {
  if (std::abs(value) < step / 2) value = 0;  // or what is left of it would show as -0
  if (value >= 10'000) {
    std::string text = format_bytes(value);  // k, M, G
    text.pop_back();
    return text;
  }
  return format_fixed(value, std::clamp(static_cast<int>(std::ceil(-std::log10(step))), 0, 6));
}

// About what a letter takes.
double width_of(const std::string& text) {
  return 6.5 * double(text.size());
}

// Under its tick, or as near as it fits.
double x_of_tick(double x, const std::string& text, const Frame& frame) {
  return std::min(frame.x(x), frame.size().width - width_of(text) / 2);
}

std::string axes(const Chart& chart, const Frame& frame) {
  std::string out;
  const std::vector<double> xs = frame.x_ticks();
  const std::vector<double> ys = ticks(frame.y_range().low, frame.y_range().high, 5);
  for (const double x : xs) {
    const double step = chart.log_x ? x : xs.size() > 1 ? xs[1] - xs[0] : 1;
    const std::string text = tick_text(x, step);
    out += label(x_of_tick(x, text, frame), frame.bottom() + 16, "middle", text);
  }
  for (const double y : ys) {
    out += line(frame.left(), frame.y(y), frame.right(), frame.y(y));
    out += label(frame.left() - 6, frame.y(y) + 4, "end",
                 tick_text(y, ys.size() > 1 ? ys[1] - ys[0] : 1));
  }
  out +=
      label((frame.left() + frame.right()) / 2, frame.size().height - 8, "middle", chart.x_label);
  out += label(title_x(frame), 16, "start",
               chart.title + (chart.y_label.empty() ? "" : ", " + chart.y_label));
  return out;
}

std::string polyline(const Series& series, const Frame& frame, std::size_t style) {
  std::string out =
      "<polyline " + class_of(style) + " stroke-dasharray=\"" + kDashes[style] + "\" points=\"";
  const std::size_t stride = series.points.size() / frame.size().points_max + 1;
  for (std::size_t i = 0; i < series.points.size(); i += stride) {
    out += number(frame.x(series.points[i].first)) + "," +
           number(frame.y(series.points[i].second)) + " ";
  }
  return out + "\"/>";
}

std::string dots(const Series& series, const Frame& frame, std::size_t style) {
  std::string out = "<g " + class_of(style) + ">";
  for (const auto& [x, y] : series.points) {
    out += "<circle r=\"4\" cx=\"" + number(frame.x(x)) + "\" cy=\"" + number(frame.y(y)) + "\"/>";
  }
  return out + "</g>";
}

// Top of a stacked legend at the right: away from where most lines end.
double legend_top(const Chart& chart, const Frame& frame) {
  const auto ends_high = [&](const Series& series) {
    return !series.points.empty() &&
           frame.y(series.points.back().second) < (kTop + frame.bottom()) / 2;
  };
  const auto high = std::count_if(chart.series.begin(), chart.series.end(), ends_high);
  const double height = kLineHeight * double(chart.series.size());
  return 2 * std::size_t(high) > chart.series.size() ? std::max(kTop, frame.bottom() - height - 4)
                                                     : kTop;
}

// Beside the title, or in the plot if it does not fit there.
std::string legend(const Chart& chart, const Frame& frame) {
  double width = width_of(chart.title + ", " + chart.y_label);
  for (const Series& series : chart.series) width += kSample + 18 + width_of(series.name);
  const bool stacked = width > frame.right() - title_x(frame);
  std::string out;
  const double top = stacked ? legend_top(chart, frame) : 0;
  double x = frame.right(), y = 16;
  for (std::size_t i = chart.series.size(); i-- > 0;) {
    if (stacked) y = top + kLineHeight * double(i + 1);
    const std::size_t style = style_of(chart, i);
    const double end = x - width_of(chart.series[i].name) - 6;
    out += "<g " + class_of(style) + ">" + label(x, y, "end", chart.series[i].name) +
           "<polyline stroke-dasharray=\"" + kDashes[style] + "\" points=\"" +
           number(end - kSample) + "," + number(y - 4) + " " + number(end) + "," + number(y - 4) +
           "\"/></g>";
    if (!stacked) x = end - kSample - 12;
  }
  return out;
}

std::string band(const std::pair<double, double>& range, const Frame& frame) {
  const double left = std::clamp(frame.x(range.first), frame.left(), frame.right());
  const double right = std::clamp(frame.x(range.second), frame.left(), frame.right());
  return "<rect class=\"band\" x=\"" + number(left) + "\" y=\"" + number(kTop) + "\" width=\"" +
         number(std::max(2.0, right - left)) + "\" height=\"" + number(frame.bottom() - kTop) +
         "\"/>";
}

}  // namespace

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> out;
  for (double power = std::pow(10.0, std::floor(std::log10(low))); power <= high; power *= 10) {
    for (const double unit : {1.0, 2.0, 5.0}) {
      const double tick = unit * power;
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) out.push_back(tick);
    }
  }
  return out;
}

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double unit = rough / power;
  const double step = power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    out.push_back(i * step);
  return out;
}

std::string svg(const Chart& chart, const ChartSize& size) {
  const Frame frame(chart, size);
  std::string out = "<svg class=\"" + std::string(size.name) + "\" viewBox=\"0 0 " +
                    number(size.width) + " " + number(size.height) +
                    "\" role=\"img\" aria-label=\"" + escape_html(chart.title) + "\">" +
                    (chart.band ? band(*chart.band, frame) : "") + axes(chart, frame);
  for (std::size_t i = chart.series.size(); i-- > 0;) {
    const Series& series = chart.series[i];
    const std::size_t style = style_of(chart, i);
    out += series.dots ? dots(series, frame, style) : polyline(series, frame, style);
  }
  if (chart.series.size() > 1) out += legend(chart, frame);
  return out + "</svg>";
}

std::vector<std::vector<std::string>> table_of(const Chart& chart) {
  std::vector<double> xs;
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) xs.push_back(x);
  }
  std::ranges::sort(xs);
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  std::vector<std::vector<std::string>> rows;
  const std::size_t count = std::min(xs.size(), kRowsMax);
  for (std::size_t i = 0; i < count; ++i) {
    const double wanted = xs[count == 1 ? 0 : i * (xs.size() - 1) / (count - 1)];
    std::vector<std::string> row{tick_text(wanted, 1)};
    for (const Series& series : chart.series) {
      const auto after = std::ranges::upper_bound(series.points, wanted, {},
                                                  [](const auto& point) { return point.first; });
      row.push_back(after == series.points.begin() ? ""
                                                   : tick_text(std::prev(after)->second, 1e-4));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace causeway::run
