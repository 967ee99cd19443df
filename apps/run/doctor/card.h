// What a doctor says of its region to the doctors of the others.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace causeway::run {

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

}  // namespace causeway::run
