// Quantities as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace causeway::run {

std::string format_bytes(double bytes);         // "8.12 MB", decimal prefixes
std::string format_duration(double seconds);    // "4 min 12 s"
std::string format_count(std::uint64_t count);  // "1,048,576"
// "1,200/2,000"; of a region that also trained while it was cut off, "2,000/2,000 (+1,860 alone)":
// such steps are beyond those of the run. No `of`: nothing is known of the run.
std::string format_steps(std::uint64_t taken, std::uint64_t of, const std::string& slash = "/");
std::string format_money(double value);  // "12.50"; a small sum with two digits: "0.00034"
std::string format_fixed(double value, int decimals);
// "2.5000"; it may be 0 or less. Not known, or no number: `unknown`.
std::string format_loss(const std::optional<double>& loss, const std::string& unknown);

}  // namespace causeway::run
