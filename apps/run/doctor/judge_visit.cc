#include "apps/run/doctor/checks.h"

#include <cmath>
#include <optional>
#include <string>
#include <system_error>

#include <asio/error.hpp>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "diloco/coordinator/greeting.h"
#include "inter/base/error.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

constexpr double kSkewWarned_s = 2, kSkewRefused_s = 300;  // certificates begin 300 s before
constexpr double kLossWarned = 0.01;
constexpr double kRoundTripsOfAnElection = 2;
constexpr std::uint32_t kSegmentSmall = 1200;  // bytes; 1,448 is usual
constexpr double kMegabit = 1e6 / 8;           // bytes

constexpr char kMtuAdvice[] =
    "something on the way drops large packets in silence (MTU): lower the MTU of this host's "
    "interface, or let ICMP pass; net.ipv4.tcp_mtu_probing = 1 helps too";

constexpr char kPortAdvice[] =
    "write `listen` and `advertise` into its part of the file, in the files of all regions; "
    "advertise = \"\" if nobody can dial it";

std::string where(const Neighbour& neighbour) {
  return inter::to_string(neighbour.address);
}

// Of an address that did not answer.
std::string advice_for(const Neighbour& neighbour) {
  if (neighbour.address.port == 0) return kPortAdvice;
  const std::error_code code = neighbour.problem_code;
  if (code == asio::error::host_not_found || code == asio::error::host_not_found_try_again ||
      neighbour.problem.find("look") != std::string::npos)
    return "correct its advertise in the configuration, or the name server of this host";
  if (code == asio::error::connection_refused)
    return "start `causeway doctor` or the coordinator there, and look whether that port is the "
           "one it listens on";
  if (code == std::errc::connection_aborted || code == std::errc::connection_reset)
    return "something takes connections there and ends them, such as a load balancer or a "
           "forwarded "
           "port behind which nothing listens: start the coordinator or `causeway doctor` there, "
           "and look where the port leads";
  if (neighbour.problem.find("takes connections") != std::string::npos)
    return "something takes connections there and says nothing: look what listens on that port, "
           "and where it leads";
  if (neighbour.problem.find("is answered by") != std::string::npos)
    return "correct its advertise in the configuration, or what forwards that port";
  if (neighbour.problem.find("certificate") != std::string::npos)
    return "compare ca.crt of both hosts, and the clocks: `causeway certs show`";
  if (code == make_error_code(inter::Errc::not_tls))
    return "another program answers there: correct its advertise";
  return "let the firewalls on the way pass TCP to this port, or start `causeway doctor` there";
}

Finding judge_address(const std::string& name, const Neighbour& neighbour, const OwnSide& side) {
  const std::string subject = "address of " + name;
  const Card& own = side.card;
  if (neighbour.address.host.empty() && side.advertise.host.empty())
    return warn(subject,
                "neither it nor this region has one: their traffic goes by way of a third region",
                "give one of the two an address that the other can dial, if it can have one: that "
                "is quicker, and no third region can stop it");
  if (neighbour.address.host.empty())
    return neighbour.linked ? ok(subject, "it has none and has dialled us")
                            : fail(subject, "it has none and has not dialled us",
                                   "start `causeway doctor` there at the same time");
  if (neighbour.small_packets_pass)
    return fail(subject, where(neighbour) + " answers to small packets alone", kMtuAdvice);
  if (!neighbour.problem.empty()) return fail(subject, neighbour.problem, advice_for(neighbour));
  if (neighbour.status) {
    const auto status = parse_object(*neighbour.status);
    if (!status ||
        get<std::string>(*status, "settings_sha256") != diloco::settings_digest(own.settings))
      return fail(subject, where(neighbour) + ", its coordinator runs with other settings",
                  "use the file of that region; a coordinator that is refused there says which "
                  "settings differ");
    return ok(subject, where(neighbour) + ", its coordinator runs with the same settings");
  }
  if (!neighbour.card)
    return fail(subject, where(neighbour) + " did not answer",
                "start `causeway doctor` there at the same time");
  return ok(subject, where(neighbour) + ", reached from here");
}

// As its doctor or its coordinator says.
std::optional<SharedData> data_of(const Neighbour& neighbour) {
  if (neighbour.card) return neighbour.card->data;
  const auto status = neighbour.status ? parse_object(*neighbour.status) : std::nullopt;
  if (!status || object_in(*status, "data").empty()) return std::nullopt;  // not known yet
  return data_in(*status);
}

// By every byte where both regions have read all of it.
void judge_data(const std::string& name, const SharedData& theirs, const SharedData& own,
                Findings& findings) {
  const std::string subject = "data of " + name;
  if (theirs == SharedData{} && own == SharedData{}) return;
  const bool whole = !theirs.whole.empty() && !own.whole.empty();
  const bool same = whole ? theirs.whole == own.whole : theirs.sample == own.sample;
  findings.push_back(
      !same   ? fail(subject, "not the same files as here",
                     "copy the same files to all regions, or give each data_files of its own")
      : whole ? ok(subject, "the same, every byte")
              : warn(subject, "a sample is the same; the rest was not read",
                     "`causeway doctor --whole-data` in all regions compares every byte"));
}

void judge_configuration(const std::string& name, const Card& theirs, const Card& own,
                         Findings& findings) {
  const std::string differences = diloco::config_differences(
      {.text = own.settings, .place = "here"}, {.text = theirs.settings, .place = "in " + name});
  const std::string subject = "configuration of " + name;
  findings.push_back(differences.empty()
                         ? ok(subject, "the same")
                         : fail(subject, differences, "use one file in all regions"));
  if (theirs.program != own.program)
    findings.push_back(warn("program of " + name, theirs.program + ", here " + own.program,
                            "run one version everywhere"));
  std::string others;
  for (const auto& [package, version] : own.packages) {
    const auto there = theirs.packages.find(package);
    if (there != theirs.packages.end() && there->second != version)
      inter::append_item(others, package + " " + there->second + ", here " + version);
  }
  if (!others.empty())
    findings.push_back(warn("packages of " + name, others,
                            "install the same versions if regions are to compute the same bits"));
}

void judge_clock(const std::string& name, const Neighbour& neighbour, Findings& findings) {
  if (!neighbour.clock_ahead_s) return;
  const double ahead_s = *neighbour.clock_ahead_s, skew_s = std::abs(ahead_s);
  const std::string text = format_fixed(skew_s, skew_s < 10 ? 2 : 0) + " s " +
                           (ahead_s < 0 ? "behind" : "ahead of") + " ours";
  const std::string advice = "let both hosts follow a time server: certificates have dates";
  const std::string subject = "clock of " + name;
  findings.push_back(skew_s > kSkewRefused_s  ? fail(subject, text, advice)
                     : skew_s > kSkewWarned_s ? warn(subject, text, advice)
                                              : ok(subject, text));
}

// Known after some more bytes than a payload may have.
std::string segments(const Neighbour& neighbour) {
  const std::uint32_t bytes = neighbour.link.segment_bytes;
  return bytes == 0 ? "" : ", segments of " + format_count(bytes) + " bytes";
}

std::string figures(const Neighbour& neighbour, double rate) {
  return "round trip " +
         format_fixed(std::chrono::duration<double, std::milli>(neighbour.link.round_trip).count(),
                      1) +
         " ms, " + format_fixed(rate / kMegabit, 1) + " Mbit/s sent, " +
         format_fixed(100 * neighbour.link.loss, 2) + " % sent again" + segments(neighbour);
}

Finding judge_link(const std::string& name, const Neighbour& neighbour, const Visit& visit,
                   const OwnSide& own) {
  const std::string subject = "link to " + name;
  const double round_trip_s = std::chrono::duration<double>(neighbour.link.round_trip).count();
  double rate = neighbour.link.rate_bytes_per_s;
  if (neighbour.payload_s > 0)
    rate = static_cast<double>(visit.payload_bytes) /
           std::max(1e-6, neighbour.payload_s - round_trip_s);
  if (rate <= 0 || (neighbour.payload_s == 0 && neighbour.link.rate_bytes_per_s == 0))
    return fail(subject,
                "small messages pass, " + format_bytes(static_cast<double>(visit.payload_bytes)) +
                    " did not",
                kMtuAdvice);
  std::string text = figures(neighbour, rate);
  if (own.round_payload_bytes > 0) {
    const double seconds = round_trip_s + static_cast<double>(own.round_payload_bytes) / rate;
    text += "; an exchange takes " +
            (seconds < 0.1 ? "less than 0.1 s" : "about " + format_duration(seconds));
  }
  if (own.election_timeout_s > 0 && own.election_timeout_s < kRoundTripsOfAnElection * round_trip_s)
    return warn(subject, text,
                "set sync.election_timeout_s to " + format_fixed(10 * round_trip_s, 1) +
                    " or more, ten round trips: with " + format_fixed(own.election_timeout_s, 2) +
                    " s a leader may not stay elected");
  if (neighbour.payload_s == 0)
    return warn(subject, text, "a slow link: `causeway tune` says which K it allows");
  if (neighbour.link.loss > kLossWarned)
    return warn(subject, text, "many packets are lost: ask who runs the link, or raise K");
  if (neighbour.link.segment_bytes > 0 && neighbour.link.segment_bytes < kSegmentSmall)
    return warn(subject, text, "the path's MTU is small: a tunnel on the way costs some rate");
  return ok(subject, text);
}

Finding judge_other_way(const Visit& visit, const OwnSide& own) {
  const std::string subject = "own address", at = inter::to_string(own.advertise);
  if (own.advertise.host.empty()) return ok(subject, "none: this region dials the others");
  if (own.advertise.port == 0 && !visit.neighbours.empty())
    return fail(subject, at + ": nobody can dial port 0", kPortAdvice);
  std::string reached, not_reached, silent;
  for (const auto& [name, neighbour] : visit.neighbours) {
    if (!neighbour.says_of_us) {
      if (!neighbour.status) inter::append_item(silent, name);  // a coordinator would not say
    } else if (neighbour.says_of_us->empty()) {
      inter::append_item(reached, name);
    } else {
      inter::append_item(not_reached, name + " (" + *neighbour.says_of_us + ")");
    }
  }
  if (!not_reached.empty())
    return fail(subject, at + " is not reached from " + not_reached,
                "advertise an address of this host as others see it, and let its firewall or NAT "
                "pass that port; or set advertise = \"\", so that this region dials");
  if (reached.empty())
    return warn(subject, at + ": no doctor of another region said whether it is reached",
                "run `causeway doctor` in all regions at the same time");
  if (!silent.empty())
    return warn(subject, at + ", reached from " + reached + "; not known from " + silent,
                "run `causeway doctor` there at the same time; if it runs, something on the way "
                "lets neither side dial the other");
  return ok(subject, at + ", reached from " + reached);
}

}  // namespace

Findings judge_visit(const Visit& visit, const OwnSide& own) {
  Findings findings;
  if (!visit.listening_problem.empty())
    findings.push_back(fail("listening", visit.listening_problem,
                            "listen on an address of this host and a port that nothing has; end "
                            "a coordinator that runs here"));
  findings.push_back(judge_other_way(visit, own));
  for (const auto& [name, neighbour] : visit.neighbours) {
    findings.push_back(judge_address(name, neighbour, own));
    if (neighbour.card) judge_configuration(name, *neighbour.card, own.card, findings);
    if (const auto data = data_of(neighbour)) judge_data(name, *data, own.card.data, findings);
    judge_clock(name, neighbour, findings);
    if (neighbour.linked) findings.push_back(judge_link(name, neighbour, visit, own));
  }
  return findings;
}

}  // namespace causeway::run
