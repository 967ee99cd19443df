#include "apps/run/simulate/display.h"

#include <algorithm>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/run/page/format.h"

namespace causeway::run {
namespace {

constexpr std::size_t kNotesShown = 4;
constexpr double kPlainInterval_s = 5;

std::string pad(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}
std::string pad_left(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

// States come from other processes: nothing but printable ASCII reaches the terminal.
std::string clean(std::string line, std::size_t width) {
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  if (line.size() > width) line.resize(width);
  return line;
}

std::string bar(double fraction, std::size_t width) {
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * double(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '-') + "]";
}

double fraction_done(const View& view) {
  if (view.steps == 0 || view.regions.empty()) return 0;
  double sum = 0;
  for (const RegionView& region : view.regions) sum += double(region.step);
  return sum / (double(view.regions.size()) * double(view.steps));
}

std::string validation_text(const RegionView& region) {
  return region.val_loss ? ", validation " + format_fixed(*region.val_loss, 4) : "";
}

std::string round_text(const View& view) {
  return fmt::format("round {}/{}", view.round, view.rounds);
}

std::string heading(const View& view) {
  std::string line = view.title + "  " + view.phase + "  ";
  if (view.rounds > 0) line += round_text(view) + "  ";
  line += bar(fraction_done(view), 24) + "  " + format_duration(view.elapsed_s);
  if (view.remaining_s >= 0) line += ", about " + format_duration(view.remaining_s) + " left";
  return line;
}

void add_regions(const View& view, std::vector<std::string>& lines) {
  std::size_t name_width = 6;
  for (const RegionView& region : view.regions)
    name_width = std::max(name_width, region.name.size());
  const std::size_t step_width =
      std::max<std::size_t>(4, format_steps(view.steps, view.steps).size());
  lines.push_back(pad("region", name_width) + "  " + pad_left("step", step_width) +
                  "     loss  tokens/s  state");
  for (const RegionView& region : view.regions) {
    const std::string step = format_steps(region.step, view.steps);
    lines.push_back(pad(region.name, name_width) + "  " + pad_left(step, step_width) + "  " +
                    pad_left(format_loss(region.loss, "-"), 7) + "  " +
                    pad_left(format_count(static_cast<std::uint64_t>(region.tokens_per_s)), 8) +
                    "  " + region.state + validation_text(region));
  }
}

std::string link_text(const RegionView& region, const LinkView& link) {
  std::string state = link.via.empty() ? "down" : "by way of " + link.via;
  if (link.up) state = link.round_trip_ms > 0 ? format_fixed(link.round_trip_ms, 0) + " ms" : "up";
  return region.name + " <-> " + link.peer + " " + state;
}

// As many lines as the links need.
void add_wan(const View& view, std::size_t width, std::vector<std::string>& lines) {
  lines.push_back("WAN  " + format_bytes(double(view.wan_bytes)) + " sent, " +
                  format_bytes(view.wan_bytes_per_s) + "/s");
  for (const RegionView& region : view.regions) {
    for (const LinkView& link : region.links) {
      if (link.up && region.name > link.peer) continue;  // a live link is shown once
      const std::string text = link_text(region, link);
      if (lines.back().size() + 3 + text.size() <= width) {
        lines.back() += "   " + text;
      } else {
        lines.push_back("     " + text);
      }
    }
  }
}

void write_all(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

}  // namespace

std::vector<std::string> render(const View& view, std::size_t width) {
  std::vector<std::string> lines = {heading(view)};
  add_regions(view, lines);
  if (view.rounds > 0) add_wan(view, width, lines);
  if (view.egress) lines.push_back("egress  " + to_string(*view.egress));
  if (view.restarts > 0) lines.push_back(fmt::format("restarts: {}", view.restarts));
  const std::size_t first = view.notes.size() - std::min(view.notes.size(), kNotesShown);
  for (std::size_t i = first; i < view.notes.size(); ++i) lines.push_back("! " + view.notes[i]);
  for (std::string& line : lines) line = clean(std::move(line), width);
  return lines;
}

std::vector<std::string> PlainProgress::lines(const View& view) {
  std::vector<std::string> out;
  if (view.phase != phase_) {
    phase_ = view.phase;
    round_ = view.round;
    shown_at_s_.clear();
    out.push_back(fmt::format("{}: {}, {} steps", view.title, view.phase, view.steps));
  }
  for (; notes_ < view.notes.size(); ++notes_) out.push_back("! " + view.notes[notes_]);
  if (view.round > round_) {
    round_ = view.round;
    out.push_back(round_text(view) + " committed after " + format_duration(view.elapsed_s) + ", " +
                  format_bytes(double(view.wan_bytes)) + " over the WAN");
  }
  for (const RegionView& region : view.regions) {
    const auto shown = shown_at_s_.find(region.name);
    if (shown != shown_at_s_.end() && view.elapsed_s < shown->second + kPlainInterval_s) continue;
    shown_at_s_[region.name] = view.elapsed_s;
    out.push_back(region.name + ": step " + format_steps(region.step, view.steps) + ", loss " +
                  format_loss(region.loss, "-") + validation_text(region) + ", " +
                  format_count(static_cast<std::uint64_t>(region.tokens_per_s)) + " tokens/s, " +
                  (region.mfu > 0 ? "MFU " + format_fixed(100 * region.mfu, 1) + " %, " : "") +
                  region.state);
  }
  for (std::string& line : out) line = clean(std::move(line), 400);
  return out;
}

Display::Display() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

// A frame is one write that overwrites line by line and clears only what is left over, so that
// nothing flickers. One column stays free: a full line would wrap on some terminals.
void Display::update(const View& view) {
  std::string text;
  if (terminal_) {
    if (drawn_lines_ > 0) text = fmt::format("\x1b[{}A\r", drawn_lines_);
    const std::vector<std::string> frame = render(view, terminal_width() - 1);
    for (const std::string& line : frame) text += line + "\x1b[K\n";
    text += "\x1b[J";
    drawn_lines_ = frame.size();
  } else {
    for (const std::string& line : plain_.lines(view)) text += line + "\n";
  }
  if (!text.empty()) write_all(text);
}

void Display::finish() {
  drawn_lines_ = 0;
}

}  // namespace causeway::run
