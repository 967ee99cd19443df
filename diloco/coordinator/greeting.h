// What coordinators show each other before anything else: whether they belong to one run with one
// configuration.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "diloco/log/record.h"
#include "inter/base/error.h"

namespace causeway::diloco {

struct Greeting {
  std::string run_id;  // empty: a joiner that does not know it yet
  std::string region;
  std::string incarnation = {};  // of its disk
  std::string shared_config;
  Round version = 0;
  std::string parent_run_id = {};  // of a forked run
  std::string process = {};        // a process_name()
};

// Of a process that begins now. Names sort by when their processes began, by the clocks of their
// hosts, and no two are alike.
std::string process_name();
// As greeted; empty: it says none, or none that can be.
std::string process_in(const std::string& greeting);

// Of the settings that all regions share, for comparing: hexadecimal SHA-256.
std::string settings_digest(const std::string& shared_config);

// How the greeting of `causeway doctor` begins, which asks before a run and takes no part in it.
constexpr std::string_view kDoctorGreeting = "causeway doctor ";

std::string serialize(const Greeting& greeting);

// What a refused region's operator must do; the numbers are exit codes.
enum class RefusalKind { none = 0, configuration = 2, revoked = 3, lineage = 4 };

struct Judgement {
  RefusalKind kind = RefusalKind::none;
  std::string reason;        // for the log and the peer; empty: accepted
  std::string peers_run_id;  // may be empty
  std::string peers_incarnation;
  // It is in another run, in which nothing was trained, and in ours something was.
  bool comes_with_nothing = false;
};
// `bytes` came from `peer`, whose name is certified.
Judgement judge(const Greeting& ours, const std::string& peer, const std::string& bytes);

// From its code, or from the reason that a peer sent.
RefusalKind kind_of_refusal(const inter::LinkError& refusal);

// A text of "key = value" lines, and where it is: "here", "in eu-west".
struct PlacedSettings {
  std::string text;
  std::string place;
};
// By key, of lines "key = value".
std::map<std::string, std::string> settings_in(const std::string& text);
// "model.layers = 4 here, 6 in eu-west; ...". Empty if they are equal.
std::string config_differences(const PlacedSettings& ours, const PlacedSettings& theirs);

}  // namespace causeway::diloco
