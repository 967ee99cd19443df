#include "apps/run/doctor/doctor.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "apps/run/config/spool_need.h"
#include "apps/run/doctor/checks.h"
#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/files/file_io.h"
#include "inter/base/tcp.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

using Grade = Finding::Grade;

constexpr double kFresh_s = 24 * 3600;
constexpr char kFile[] = "doctor.json";
constexpr std::uint64_t kProbeBytesMin = 8'000'000, kProbeBytesMax = 16'000'000;

void append(Findings& all, Findings more) {
  std::ranges::move(more, std::back_inserter(all));
}

const char* name_of(Grade grade) {
  return grade == Grade::ok ? "ok" : grade == Grade::warn ? "warn" : "fail";
}

std::size_t count(const Findings& findings, Grade grade) {
  return static_cast<std::size_t>(std::ranges::count(findings, grade, &Finding::grade));
}

Findings check_disk(const Config& config, const std::filesystem::path& directory) {
  try {
    return judge_disk(look_at_disk(directory), config, directory);
  } catch (const std::exception& error) {
    return {fail("disk", error.what(), "name a directory that can be written to (--directory)")};
  }
}

Finding check_congestion_control(const std::string& wanted) {
  asio::io_context context;
  asio::ip::tcp::socket socket(context, asio::ip::tcp::v4());
  const std::string usual = inter::congestion_control(socket.native_handle());
  const std::string name = wanted == "auto" ? "bbr" : wanted;
  if (inter::set_congestion_control(socket.native_handle(), name))
    return ok("congestion control", name);
  const std::string advice =
      "as root: modprobe tcp_" + name + ", and sysctl net.ipv4.tcp_allowed_congestion_control";
  if (wanted == "auto")
    return warn("congestion control", usual + "; the kernel does not let us use bbr",
                advice + "; without it long links that lose packets are slower");
  return fail("congestion control", "the kernel does not let us use " + wanted, advice);
}

// Nothing to visit with where the own certificate is not good.
void check_neighbours(const Config& config, const DoctorOptions& options, TrainerFigures&& trainer,
                      Findings& findings) {
  OwnSide own{
      .card = {.region = options.links.region,
               .program = options.program,
               .settings = shared_settings(config),
               .data = std::move(trainer.data),
               .packages = std::move(trainer.packages)},
      .advertise = region_in(config, options.links.region).advertise,
      .round_payload_bytes = config.built_in_trainer() ? spool_need(config).payload_bytes : 0,
      .election_timeout_s = std::chrono::duration<double>(config.sync.rules.election).count()};
  VisitOptions visit{
      .mesh = mesh_options(config, options.links),
      .card = own.card,
      .directory = options.directory / "doctor",
      .payload_bytes = std::clamp(own.round_payload_bytes, kProbeBytesMin, kProbeBytesMax),
      .wait = options.wait};
  visit.mesh.peers = peer_addresses(config, options.links);
  try {
    append(findings, judge_visit(visit_neighbours(std::move(visit)), own));
  } catch (const std::exception& error) {
    findings.push_back(
        fail("links", error.what(), "mend what fails above, and run `causeway doctor` again"));
  }
}

nlohmann::ordered_json json_of(const Finding& finding) {
  return {{"grade", name_of(finding.grade)},
          {"subject", finding.subject},
          {"text", finding.text},
          {"advice", finding.advice}};
}

std::string unfit(const nlohmann::json& kept, const Config& config, double now_s) {
  if (get<std::uint64_t>(kept, "failed") > 0) return "found something that must be mended";
  if (get<std::string>(kept, "settings_sha256") != diloco::settings_digest(shared_settings(config)))
    return "looked at another configuration";
  const double age_s = now_s - get<double>(kept, "time_unix_s");
  if (age_s > kFresh_s || age_s < -kFresh_s) return "ran more than a day ago";
  return "";
}

}  // namespace

bool Diagnosis::failed() const {
  return count(findings, Grade::fail) > 0;
}

Diagnosis diagnose(const Config& config, const DoctorOptions& options) {
  const std::string& region = options.links.region;
  Diagnosis diagnosis{.time_unix_s = unix_seconds(),
                      .settings_digest = diloco::settings_digest(shared_settings(config)),
                      .findings = judge_host(look_at_host(), config, region)};
  Findings& findings = diagnosis.findings;
  append(findings, judge_settings(config));
  append(findings, check_disk(config, options.directory));
  TrainerFigures trainer = look_at_trainer(config, {.region = region,
                                                    .directory = options.directory,
                                                    .python = options.python,
                                                    .whole_data = options.whole_data});
  append(findings, std::move(trainer.findings));
  findings.push_back(check_congestion_control(config.links.congestion_control));
  Findings credentials = check_credentials(
      options.links.certificates.empty() ? config.certificates : options.links.certificates,
      region);
  const bool certified = count(credentials, Grade::fail) == 0;
  append(findings, std::move(credentials));
  if (certified) check_neighbours(config, options, std::move(trainer), findings);
  return diagnosis;
}

std::string to_text(const Diagnosis& diagnosis) {
  std::size_t width = 0;
  for (const Finding& finding : diagnosis.findings) width = std::max(width, finding.subject.size());
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    std::string grade = name_of(finding.grade), subject = finding.subject;
    grade.resize(6, ' ');
    subject.resize(width + 2, ' ');
    text += grade + subject + finding.text + "\n";
    if (!finding.advice.empty()) text += "      -> " + finding.advice + "\n";
  }
  const std::size_t failures = count(diagnosis.findings, Grade::fail);
  const std::size_t warnings = count(diagnosis.findings, Grade::warn);
  return fmt::format("{}\n{}{}{}{}{} ok\n", inter::printable(text), failures,
                     failures == 1 ? " failure, " : " failures, ", warnings,
                     warnings == 1 ? " warning, " : " warnings, ",
                     diagnosis.findings.size() - failures - warnings);
}

std::string to_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json json{{"time_unix_s", diagnosis.time_unix_s},
                              {"settings_sha256", diagnosis.settings_digest},
                              {"failed", count(diagnosis.findings, Grade::fail)},
                              {"warned", count(diagnosis.findings, Grade::warn)},
                              {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : diagnosis.findings) json["findings"].push_back(json_of(finding));
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void keep(const Diagnosis& diagnosis, const std::filesystem::path& directory) {
  diloco::replace_file(directory / kFile, to_json(diagnosis), diloco::Durability::visible);
}

void require_doctor(const Config& config, const std::string& region,
                    const std::filesystem::path& directory) {
  const auto kept = parse_object(read_text_file(directory / kFile));
  const std::string problem = kept ? unfit(*kept, config, unix_seconds()) : "has not run here";
  if (problem.empty()) return;
  throw ConfigError("run.require_doctor is set, but `causeway doctor --region " + region + "` " +
                    problem +
                    "; run it in all regions at the same time, with this "
                    "configuration and directory");
}

}  // namespace causeway::run
