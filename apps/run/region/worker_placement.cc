#include "apps/run/region/worker_placement.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "apps/run/region/region_files.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kCoresMax = CPU_SETSIZE;

using Nodes = std::map<unsigned, Cores>;

std::optional<unsigned> parse_number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string line_of(const fs::path& file) {
  std::string text = read_text_file(file);
  text.erase(std::min(text.find('\n'), text.size()));
  return text;
}

// Those that have cores.
Nodes nodes_of(const fs::path& sys) {
  Nodes nodes;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(sys / "devices/system/node", none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node")) continue;
    const auto number = parse_number(std::string_view(name).substr(4));
    const auto cores = parse_cores(line_of(entry.path() / "cpulist"));
    if (number && cores && !cores->empty()) nodes[*number] = *cores;
  }
  return nodes;
}

// Nothing: the kernel does not know, which it writes as -1.
std::optional<unsigned> node_at(const fs::path& device) {
  return parse_number(line_of(device / "numa_node"));
}

Cores common(const Cores& a, const Cores& b) {
  Cores both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

std::optional<unsigned> best_node(const Nodes& nodes, const WorkerSeat& seat,
                                  std::optional<unsigned> node_of_gpu) {
  if (node_of_gpu && nodes.contains(*node_of_gpu)) return node_of_gpu;
  if (!seat.gpu.empty() || seat.local_world < nodes.size()) return std::nullopt;
  return std::next(nodes.begin(), seat.local_rank % static_cast<std::uint32_t>(nodes.size()))
      ->first;
}

std::string with_node(const std::string& what, std::optional<unsigned> node) {
  return what + (node ? fmt::format(" (NUMA node {})", *node) : "");
}

}  // namespace

std::optional<Cores> parse_cores(const std::string& list) {
  Cores cores;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string part = list.substr(at, comma - at);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == part.size() ? first : parse_number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kCoresMax) return std::nullopt;
    for (unsigned core = *first; core <= *last; ++core) cores.push_back(core);
    at = comma + 1;
  }
  std::ranges::sort(cores);
  return cores;
}

std::string to_string(const Cores& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (end > i + 1) text += fmt::format("-{}", cores[end - 1]);
    i = end;
  }
  return text;
}

WorkerPlacement place_worker(const fs::path& sys, const Cores& allowed, const WorkerSeat& seat,
                             bool bind) {
  const Nodes nodes = nodes_of(sys);
  const auto gpu = node_at(sys / "bus/pci/devices" / seat.gpu);
  const auto is_open = [&](const auto& node) { return !common(node.second, allowed).empty(); };
  WorkerPlacement placement;
  std::optional<unsigned> chosen;
  if (bind && nodes.size() > 1 && std::ranges::all_of(nodes, is_open))
    chosen = best_node(nodes, seat, gpu);
  if (chosen) placement.cores = common(nodes.at(*chosen), allowed);

  const Cores& cores = chosen ? placement.cores : allowed;
  placement.text = with_node("cores " + to_string(cores), chosen);
  if (!chosen && nodes.size() > 1)
    placement.text += fmt::format(", of {} NUMA nodes", nodes.size());
  if (!seat.gpu.empty()) placement.text += ", GPU " + with_node(seat.gpu, gpu);
  if (!seat.network.empty())
    placement.text += ", network " +
                      with_node(seat.network, node_at(sys / "class/net" / seat.network / "device"));
  return placement;
}

Cores allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  Cores cores;
  for (unsigned core = 0; core < kCoresMax; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void run_on(const Cores& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned core : cores) CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    throw std::system_error(errno, std::generic_category(), "binding to cores " + to_string(cores));
  omp_set_num_threads(std::min(omp_get_max_threads(), static_cast<int>(cores.size())));
}

}  // namespace causeway::run
