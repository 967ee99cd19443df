#include "wan-sim/scenario/trace.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "inter/base/file.h"
#include "wan-sim/base/error.h"

namespace causeway::wan_sim {

std::string read_input(const std::filesystem::path& file, const std::string& what,
                       std::size_t bytes_max) {
  try {
    return inter::read_regular_file(file, bytes_max);
  } catch (const std::runtime_error& error) {
    throw std::system_error(Errc::bad_scenario,
                            std::string(error.what()) + "; give the path of " + what);
  }
}

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets write it
constexpr std::size_t kStepsMax = 2'000'000;
constexpr double kTraceSecondsMax = 1e6;
constexpr std::uint64_t kMillisecondsMax = 1'000'000'000;
// Opportunities are counted over this long, as the mean rate over it.
constexpr std::uint64_t kBinMs = 20;
constexpr double kPacketBits = 1500 * 8;
// What a stopped link is set to; the lowest rate there is.
constexpr double kStandstillMbitS = 0;

struct Column {
  std::string_view name, key;
  double min, max, factor;
};
constexpr Column kColumns[] = {{"rate", "rate_mbit_s", 0, 100'000, 1},
                               {"rtt", "delay_ms", 0, 10'000, 0.5},
                               {"loss", "loss", 0, 0.5, 1}};

class Lines {
 public:
  Lines(const std::string& text, const std::filesystem::path& file) : text_(text), file_(file) {}

  bool next(std::string_view& line) {
    if (position_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', position_), text_.size());
    line = std::string_view(text_).substr(position_, end - position_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    position_ = end + 1;
    ++number_;
    return true;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw std::system_error(Errc::bad_scenario,
                            fmt::format("{}:{}: {}", file_.string(), number_, problem));
  }

 private:
  const std::string& text_;
  const std::filesystem::path& file_;
  std::size_t position_ = 0;
  std::uint32_t number_ = 0;
};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

double number_in(const Lines& lines, std::string_view cell, std::string_view name, double min,
                 double max) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value >= min && value <= max)) {
    std::ostringstream message;
    message << name << " must be a number from " << min << " to " << max << ", not '" << cell
            << "'";
    lines.fail(message.str());
  }
  return value;
}

Time from_s(double seconds) {
  return Time(static_cast<Time::rep>(seconds * 1e9));
}

std::vector<const Column*> header(const Lines& lines, std::string_view line) {
  const auto cells = split(line);
  std::vector<const Column*> columns{nullptr};
  if (cells.front() != "t" || cells.size() < 2)
    lines.fail("the first line must be t and any of rate, rtt, loss, as in t,rate,rtt,loss");
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const Column* found = nullptr;
    for (const Column& column : kColumns) {
      if (column.name == cells[i]) found = &column;
    }
    if (!found) lines.fail("unknown column '" + std::string(cells[i]) + "': rate, rtt or loss");
    columns.push_back(found);
  }
  return columns;
}

// A link that never moves again would be waited for without end.
bool always_stopped(const Trace& trace) {
  return std::ranges::all_of(trace.steps, [](const Trace::Step& step) {
    const auto rate = step.settings.find("rate_mbit_s");
    return rate != step.settings.end() && rate->second == kStandstillMbitS;
  });
}

Trace parse_csv(Lines& lines) {
  std::string_view line;
  if (!lines.next(line)) lines.fail("is empty; it needs t,rate,rtt,loss and rows");
  if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  const auto columns = header(lines, line);
  Trace trace;
  while (lines.next(line)) {
    if (trimmed(line).empty()) continue;
    const auto cells = split(line);
    if (cells.size() != columns.size()) {
      lines.fail(
          fmt::format("has {} values where the first line has {}", cells.size(), columns.size()));
    }
    Trace::Step step{from_s(number_in(lines, cells[0], "t", 0, kTraceSecondsMax)), {}};
    if (!trace.steps.empty() && step.at <= trace.steps.back().at) lines.fail("t must increase");
    for (std::size_t i = 1; i < cells.size(); ++i) {
      const Column& column = *columns[i];
      step.settings[column.key] =
          column.factor * number_in(lines, cells[i], column.name, column.min, column.max);
    }
    trace.steps.push_back(std::move(step));
    if (trace.steps.size() > kStepsMax) lines.fail("has more than 2000000 rows");
  }
  if (trace.steps.empty()) lines.fail("has no rows");
  if (always_stopped(trace)) lines.fail("has no row whose rate is above 0");
  // The last row lasts as long as the one before it.
  const auto last = trace.steps.back().at;
  const auto before = trace.steps.size() > 1 ? trace.steps[trace.steps.size() - 2].at : Time{0};
  trace.length = last + std::max(last - before, Time{std::chrono::milliseconds{1}});
  return trace;
}

// The bin that ends with `ms`, or after it.
std::uint64_t bin_of(std::uint64_t ms) {
  return ms == 0 ? 0 : (ms - 1) / kBinMs;
}

void end_bin(Trace& trace, std::uint64_t bin, std::uint64_t packets,
             std::uint64_t bin_ms = kBinMs) {
  const double bits = static_cast<double>(packets) * kPacketBits;
  const double mbit_s =
      packets == 0 ? kStandstillMbitS : bits / (static_cast<double>(bin_ms) * 1000.0);
  // Equal neighbours are one step.
  if (!trace.steps.empty() && trace.steps.back().settings.at("rate_mbit_s") == mbit_s) return;
  trace.steps.push_back({Time{std::chrono::milliseconds{bin * kBinMs}}, {{"rate_mbit_s", mbit_s}}});
}

// It begins again with its last line, whose opportunity ends the last bin.
Trace parse_mahimahi(Lines& lines) {
  Trace trace;
  std::string_view line;
  std::uint64_t last_ms = 0, bin = 0, packets = 0, total = 0;
  while (lines.next(line)) {
    line = trimmed(line);
    if (line.empty()) continue;
    std::uint64_t ms = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ms);
    if (error != std::errc() || end != line.data() + line.size() || ms > kMillisecondsMax)
      lines.fail("must be a whole number of milliseconds up to 1000000000");
    if (ms < last_ms) lines.fail("must not be less than the line before");
    last_ms = ms;
    if (bin_of(ms) - bin > kStepsMax) lines.fail("leaves a gap of more than eleven hours");
    for (; bin < bin_of(ms); ++bin) end_bin(trace, bin, std::exchange(packets, 0));
    ++packets;
    ++total;
    if (trace.steps.size() > kStepsMax) lines.fail("has more than 2000000 steps");
  }
  if (total == 0) lines.fail("has no lines; a trace needs one opportunity at least");
  if (last_ms == 0) lines.fail("must be above 0 in the last line, where the trace begins again");
  end_bin(trace, bin, packets, last_ms - bin * kBinMs);
  trace.length = Time{std::chrono::milliseconds{last_ms}};
  return trace;
}

}  // namespace

Trace parse_trace(const std::string& text, TraceFormat format, const std::filesystem::path& file) {
  Lines lines(text, file);
  return format == TraceFormat::csv ? parse_csv(lines) : parse_mahimahi(lines);
}

Trace load_trace(const std::filesystem::path& file) {
  const std::string text = read_input(file, "a trace");
  const bool csv = file.extension() == ".csv";
  return parse_trace(text, csv ? TraceFormat::csv : TraceFormat::mahimahi, file);
}

}  // namespace causeway::wan_sim
