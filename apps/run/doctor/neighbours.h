// The other regions as they are seen from here before a run begins. Their doctors run at the same
// time: each asks every other one at the address that the configuration advertises, tells it
// whether it was reached there, and sends it a payload over links like a run's. A region whose
// coordinator runs already is asked too.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include <nlohmann/json_fwd.hpp>

#include "inter/mesh/mesh.h"

namespace causeway::run {

// What a doctor says of its region to the doctors of the others.

// Digests of the data that all regions share, hexadecimal; empty: of none, or not known.
struct SharedData {
  std::string whole;   // of every byte
  std::string sample;  // as long as that is not known
  bool operator==(const SharedData&) const = default;
};

struct Card {
  std::string region;
  std::string program;     // its version
  double time_unix_s = 0;  // of its clock, when it was asked
  std::string settings;    // that all regions share: "key = value" lines
  SharedData data;
  std::map<std::string, std::string> packages;  // of Python, with their versions
};

std::string to_json(const Card& card);
// To whoever may only look: as a status of the region would tell it, without what regions share.
std::string to_observer(const Card& card);
// Of "data" in a card, or in a coordinator's status.json.
SharedData data_in(const nlohmann::json& json);
std::optional<Card> parse_card(const std::string& text);  // nothing: it is none

struct Neighbour {
  inter::Endpoint address;  // no host: it dials the others
  // At that address; no problem: it answered, or it has none.
  std::string problem;
  std::error_code problem_code;
  bool small_packets_pass = false;      // though nothing answers to usual ones
  std::optional<Card> card;             // of its doctor
  std::optional<std::string> status;    // of its coordinator, if that answered: status.json
  std::optional<double> clock_ahead_s;  // of ours, at least; 0 if no difference can be told
  // Why it could not reach us at our address; empty: it could. Nothing: it did not say.
  std::optional<std::string> says_of_us;
  bool linked = false;        // to its doctor, by whichever side dialled
  inter::LinkStats link;      // then
  double payload_s = 0;       // until all of our payload was there; 0: it did not arrive
  bool payload_came = false;  // all of its payload
};

struct Visit {
  std::string listening_problem;  // why nobody can reach us; empty: we listen
  std::uint64_t payload_bytes = 0;
  std::map<std::string, Neighbour> neighbours;
};

struct VisitOptions {
  inter::MeshOptions mesh;  // with `peers`
  Card card;
  std::filesystem::path directory;  // for payloads; removed afterwards
  std::uint64_t payload_bytes = 4'000'000;
  std::chrono::milliseconds wait{30'000};      // for the others to be there
  std::chrono::milliseconds transfer{20'000};  // longest time for what is still under way then
};

// Blocks until all is known, or the times are over.
Visit visit_neighbours(VisitOptions options);

}  // namespace causeway::run
