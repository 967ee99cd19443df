#include "wan-sim/client/wan.h"

#include <stdlib.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <asio/ip/tcp.hpp>
#include <nlohmann/json.hpp>

#include "wan-sim/client/child.h"
#include "wan-sim/client/http_ask.h"

namespace causeway {
namespace {

using Json = nlohmann::json;
using asio::ip::tcp;

constexpr std::chrono::seconds kStartPatience{30};
constexpr char kReady[] = "Ctrl-C ends it";

// A file of its own for a scenario that is given as text.
class ScenarioFile {
 public:
  explicit ScenarioFile(const std::string& scenario) : path_(scenario) {
    if (scenario.find('\n') == std::string::npos) return;
    std::string directory = std::filesystem::temp_directory_path() / "causeway-wan-XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "cannot make " + directory);
    directory_ = directory;
    path_ = directory_ / "wan.toml";
    std::ofstream(path_) << scenario;
  }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;
  ~ScenarioFile() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path directory_, path_;
};

std::vector<std::string> command_line(const std::filesystem::path& scenario,
                                      const std::vector<Wan::Map>& maps,
                                      const WanOptions& options) {
  std::vector<std::string> words{options.program, "wan-sim", scenario, "--http", "127.0.0.1:0"};
  for (const Wan::Map& map : maps) {
    words.push_back("--map");
    words.push_back(map.from + ":" + map.to + "=" + map.target);
  }
  if (!options.record.empty()) {
    words.push_back("--record");
    words.push_back(options.record);
  }
  return words;
}

// The part of `text` between `begin` and what follows it; empty if there is none.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const std::size_t until = text.find(end, from + begin.size());
  return text.substr(from + begin.size(), until - from - begin.size());
}

Wan::Address address_in(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Wan::Address address{text.substr(0, colon),
                       static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)))};
  if (address.host.starts_with('[')) address.host = address.host.substr(1, address.host.size() - 2);
  return address;
}

// Some keys are whole numbers, and a scenario tells 3 from 3.0.
Json number(double value) {
  constexpr double kExact = 1e15;
  if (std::trunc(value) == value && std::abs(value) < kExact)
    return static_cast<std::int64_t>(value);
  return value;
}

Json between_regions(const std::string& a, const std::string& b,
                     std::optional<Wan::Seconds> length = std::nullopt) {
  Json where{{"pair", {a, b}}};
  if (length) where["for_s"] = length->count();
  return where;
}

Wan::Link link_in(const Json& json) {
  return {.from = json.at("from"),
          .to = json.at("to"),
          .rate_mbit_s = json.at("rate_mbit_s"),
          .delay_ms = json.at("delay_ms"),
          .loss = json.at("loss"),
          .black_hole = json.at("black_hole"),
          .refused = json.at("refused"),
          .bytes = json.at("bytes"),
          .connections = json.at("connections"),
          .datagrams = json.at("datagrams"),
          .datagrams_lost = json.at("datagrams_lost"),
          .datagrams_dropped = json.at("datagrams_dropped")};
}

}  // namespace

class Wan::Implementation {
 public:
  Implementation(const std::string& scenario, const std::vector<Map>& maps,
                 const WanOptions& options)
      : scenario_(scenario), child_(command_line(scenario_.path(), maps, options)) {
    if (!child_.wait_for(kReady, kStartPatience)) {
      const std::string said = child_.said();
      throw std::runtime_error(said.empty() ? options.program.string() + " did not start" : said);
    }
    const Address http = address_in(between(child_.said(), "http://", "  shows the links"));
    server_ = {asio::ip::make_address(http.host), http.port};
    const Json maps_now = ask("/maps");
    for (const Json& map : maps_now.at("maps"))
      ports_[{map.at("from"), map.at("to")}] = address_in(map.at("listen"));
  }

  const Address& address(const std::string& from, const std::string& to) const {
    const auto found = ports_.find({from, to});
    if (found == ports_.end()) throw std::out_of_range("no map from " + from + " to " + to);
    return found->second;
  }
  Json ask(const std::string& path, const std::optional<std::string>& body = std::nullopt) const {
    wan_sim::HttpReply reply;
    try {
      reply = wan_sim::http_ask({server_}, path, body);
    } catch (const std::system_error& error) {
      throw std::runtime_error(std::string("wan-sim does not answer: ") + error.what() + "\n" +
                               child_.said());
    }
    if (reply.status != 200) throw std::runtime_error(wan_sim::problem_in(reply));
    return Json::parse(reply.body);
  }
  void post(const std::string& path, const Json& body) const { ask(path, body.dump()); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

 private:
  ScenarioFile scenario_;
  wan_sim::Child child_;
  tcp::endpoint server_;
  std::map<std::pair<std::string, std::string>, Address> ports_;
};

Wan::Wan(const std::string& scenario, const std::vector<Map>& maps, const WanOptions& options)
    : implementation_(std::make_unique<Implementation>(scenario, maps, options)) {}

Wan::~Wan() = default;

Wan::Address Wan::address(const std::string& from, const std::string& to) const {
  return implementation_->address(from, to);
}

std::uint16_t Wan::port(const std::string& from, const std::string& to) const {
  return address(from, to).port;
}

void Wan::cut(const std::string& a, const std::string& b, std::optional<Seconds> length) {
  implementation_->post("/cut", between_regions(a, b, length));
}

void Wan::heal(const std::string& a, const std::string& b) {
  implementation_->post("/heal", between_regions(a, b));
}

void Wan::heal() {
  implementation_->post("/heal", Json::object());
}

void Wan::pause(const std::string& a, const std::string& b, Seconds length) {
  implementation_->post("/pause", between_regions(a, b, length));
}

void Wan::change(const std::string& a, const std::string& b, const Settings& settings,
                 std::optional<Seconds> length) {
  Json event = between_regions(a, b, length);
  for (const auto& [key, value] : settings) event[key] = number(value);
  implementation_->post("/command", event);
}

void Wan::command(const std::string& event) {
  implementation_->ask("/command", event);
}

std::vector<Wan::Link> Wan::links() const {
  const Json now = implementation_->ask("/links");
  std::vector<Link> links;
  for (const Json& link : now.at("links")) links.push_back(link_in(link));
  return links;
}

Wan::Link Wan::link(const std::string& from, const std::string& to) const {
  for (const Link& link : links()) {
    if (link.from == from && link.to == to) return link;
  }
  throw std::out_of_range("no link from " + from + " to " + to);
}

Wan::Verdict Wan::verdict() const {
  const Json verdict = implementation_->ask("/verdict");
  return {.valid = verdict.at("valid"), .text = verdict.at("text")};
}

std::string Wan::url() const {
  return implementation_->url();
}

}  // namespace causeway
