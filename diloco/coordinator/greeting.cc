#include "diloco/coordinator/greeting.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

constexpr std::uint32_t kProtocolVersion = 6;
constexpr std::size_t kDifferencesShown = 10;
constexpr char kConfiguration[] = "configuration: ";
constexpr char kLineage[] = "lineage: ";

Digest hash_text(const std::string& text) {
  return sha256(std::as_bytes(std::span(text)));
}

Judgement refuse(const wire::Greeting& theirs, RefusalKind kind, const std::string& reason) {
  const char* prefix = kind == RefusalKind::configuration ? kConfiguration : kLineage;
  return {.kind = kind,
          .reason = prefix + reason,
          .peers_run_id = theirs.run_id(),
          .peers_incarnation = {}};
}

// A fork begins with what its parent trained.
bool holds_work(Round version, const std::string& parent_run_id) {
  return version > 0 || !parent_run_id.empty();
}

std::string rounds(Round version) {
  if (version == 0) return "none";
  return version == 1 ? "1 round" : fmt::format("{} rounds", version);
}

std::string emptied(const std::string& region) {
  return "empty the directory of " + region + " and start it with --join";
}

// Whoever follows it must not lose what was trained.
std::string way_into_one_run(const Greeting& ours, const wire::Greeting& theirs) {
  const std::string& peer = theirs.region();
  if (theirs.run_id() == ours.parent_run_id)
    return ", from which ours was forked: to let " + peer + " take part in it, " + emptied(peer);
  if (ours.run_id == theirs.parent_run_id())
    return ", which it says was forked from ours: to let " + ours.region +
           " take part in it, keep a copy of its directory, then empty it and start it with --join";
  const std::string held = fmt::format(". {} holds {} of its run, and {} {} of its: ", ours.region,
                                       rounds(ours.version), peer, rounds(theirs.version()));
  const bool here = holds_work(ours.version, ours.parent_run_id);
  const bool there = holds_work(theirs.version(), theirs.parent_run_id());
  if (here && there)
    return held + "one of the two cannot go on. Decide which run is to, keep a copy of the other " +
           "region's directory, then empty it and start that region with --join";
  if (!here && !there) return held + "empty the directory of either and start it with --join";
  return held + emptied(here ? peer : ours.region) + ", or, if those rounds are not wanted, " +
         emptied(here ? ours.region : peer);
}

Judgement refuse_run(const Greeting& ours, const wire::Greeting& theirs) {
  Judgement judgement =
      refuse(theirs, RefusalKind::lineage,
             ours.region + " belongs to run " + ours.run_id + ", " + theirs.region() + " to run " +
                 theirs.run_id() + way_into_one_run(ours, theirs));
  judgement.comes_with_nothing = holds_work(ours.version, ours.parent_run_id) &&
                                 !holds_work(theirs.version(), theirs.parent_run_id());
  return judgement;
}

}  // namespace

std::string settings_digest(const std::string& shared_config) {
  return to_hex(hash_text(shared_config));
}

std::string process_name() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  return fmt::format("{:013x}-{}", ms, random_name());
}

std::string process_in(const std::string& greeting) {
  constexpr std::size_t kNameBytesMax = 64;
  wire::Greeting message;
  if (!message.ParseFromString(greeting) || message.process().size() > kNameBytesMax) return {};
  return message.process();
}

std::string serialize(const Greeting& greeting) {
  wire::Greeting message;
  message.set_protocol(kProtocolVersion);
  message.set_run_id(greeting.run_id);
  message.set_region(greeting.region);
  message.set_incarnation(greeting.incarnation);
  encode(hash_text(greeting.shared_config), message.mutable_config_hash());
  message.set_shared_config(greeting.shared_config);
  message.set_version(greeting.version);
  message.set_parent_run_id(greeting.parent_run_id);
  message.set_process(greeting.process);
  return message.SerializeAsString();
}

Judgement judge(const Greeting& ours, const std::string& peer, const std::string& bytes) {
  if (bytes.starts_with(kDoctorGreeting)) {
    return {.kind = RefusalKind::none,
            .reason = peer + " is only being checked (causeway doctor)",
            .peers_run_id = {},
            .peers_incarnation = {}};
  }
  wire::Greeting theirs;
  if (!theirs.ParseFromString(bytes) || theirs.protocol() != kProtocolVersion) {
    return refuse(
        {}, RefusalKind::configuration,
        fmt::format("{} does not speak version {} of the protocol: run the same program everywhere",
                    peer, kProtocolVersion));
  }
  if (!may_be_incarnation(theirs.incarnation()))
    return refuse({}, RefusalKind::configuration, peer + " gives its disk a name that is too long");
  if (theirs.region() != peer) {
    return refuse(
        theirs, RefusalKind::configuration,
        peer + " calls itself '" + theirs.region() + "': check --region and certificates");
  }
  std::string expected;
  encode(hash_text(ours.shared_config), &expected);
  if (theirs.config_hash() != expected) {
    return refuse(
        theirs, RefusalKind::configuration,
        config_differences({ours.shared_config, "here"}, {theirs.shared_config(), "in " + peer}));
  }
  if (!ours.run_id.empty() && !theirs.run_id().empty() && ours.run_id != theirs.run_id())
    return refuse_run(ours, theirs);
  return {.kind = RefusalKind::none,
          .reason = {},
          .peers_run_id = theirs.run_id(),
          .peers_incarnation = theirs.incarnation()};
}

RefusalKind kind_of_refusal(const inter::LinkError& refusal) {
  if (refusal.code() == inter::Errc::revoked) return RefusalKind::revoked;
  const std::string& reason = refusal.reason();
  if (reason.find(kConfiguration) != std::string::npos) return RefusalKind::configuration;
  if (reason.find(kLineage) != std::string::npos) return RefusalKind::lineage;
  return RefusalKind::none;
}

std::map<std::string, std::string> settings_in(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) {
      values[line];
    } else {
      values[line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return values;
}

namespace {

// A region that lies may tell megabytes, and all of this is one line of a log.
std::string shortened(const std::string& text) {
  constexpr std::size_t kShownBytes = 500;
  return text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + "...";
}

}  // namespace

std::string config_differences(const PlacedSettings& ours, const PlacedSettings& theirs) {
  const auto here = settings_in(ours.text);
  const auto there = settings_in(theirs.text);
  std::set<std::string> keys;
  for (const auto& [key, value] : here) keys.insert(key);
  for (const auto& [key, value] : there) keys.insert(key);

  const auto differs = [&](const std::string& key) {
    const auto mine = here.find(key), other = there.find(key);
    return mine == here.end() || other == there.end() || mine->second != other->second;
  };
  std::string text;
  std::size_t count = 0;
  for (const std::string& key : keys) {
    const auto mine = here.find(key);
    const auto other = there.find(key);
    if (!differs(key)) continue;
    if (++count > kDifferencesShown) continue;
    const std::string left = mine == here.end() ? "not set" : shortened(mine->second);
    const std::string right = other == there.end() ? "not set" : shortened(other->second);
    text += (text.empty() ? "" : "; ") + shortened(key) + " = " + left + " " + ours.place + ", " +
            right + " " + theirs.place;
  }
  if (count > kDifferencesShown) {
    text += fmt::format("; and {} more", count - kDifferencesShown);
  }
  const bool outer = std::ranges::any_of(
      keys, [&](const std::string& key) { return key.starts_with("outer.") && differs(key); });
  if (outer)
    text +=
        ". With outer.optimizer = \"auto\" these follow from how many regions a file names "
        "and from other keys, such as train.steps: set "
        "all of outer alike";
  return text;
}

}  // namespace causeway::diloco
