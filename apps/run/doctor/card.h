// What a doctor says of its region to the doctors of the others.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace causeway::run {

struct Card {
  std::string region;
  std::string program;     // its version
  double time_unix_s = 0;  // of its clock, when it was asked
  std::string settings;    // that all regions share: "key = value" lines
  std::string data;        // fingerprint of the data that all share; empty: of none
  std::map<std::string, std::string> packages;  // of Python, with their versions
};

std::string to_json(const Card& card);
// To whoever may only look: as a status of the region would tell it, without what regions share.
std::string to_observer(const Card& card);
std::optional<Card> parse_card(const std::string& text);  // nothing: it is none

}  // namespace causeway::run
