// causeway status: what a region's coordinator says of itself now.
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/flag_range.h"
#include "apps/run/config/config.h"
#include "diloco/files/file_io.h"
#include "inter/mesh/observer.h"

namespace causeway::apps {
namespace {

constexpr int kNobodyThere = 3;

void print(const nlohmann::json& status, bool runs) {
  const auto text = [&status](const char* key) { return status.value(key, std::string()); };
  std::cout << text("region") << " of run " << text("run_id") << "\n"
            << "  round " << status.value("round", 0) << " is open, version "
            << status.value("version", 0) << " applied"
            << (status.value("finished", false) ? ", finished" : "") << "\n"
            << "  leader: " << (text("leader").empty() ? "none known" : text("leader")) << ", term "
            << status.value("term", 0) << "\n"
            << "  waiting for: " << (text("waiting").empty() ? "nothing" : text("waiting")) << "\n";
  const auto progress = status.find("progress");
  if (progress != status.end()) {
    std::cout << (runs ? "  worker: " : "  worker, when it was last heard: ")
              << progress->value("phase", std::string()) << ", step " << progress->value("step", 0)
              << ", loss " << progress->value("loss", 0.0) << "\n";
  }
  const auto links = status.find("links");
  if (links == status.end() || !runs) return;
  for (const auto& [peer, link] : links->items()) {
    std::cout << "  " << peer << ": " << (link.value("up", false) ? "up" : "DOWN")
              << ", round trip " << std::fixed << std::setprecision(1)
              << link.value("round_trip_ms", 0.0) << " ms, " << link.value("tx_bytes", 0ULL)
              << " bytes sent, " << link.value("rx_bytes", 0ULL) << " received\n";
  }
}

struct StatusFlags {
  std::string target;
  std::filesystem::path certificates = "certificates";
  std::string as;
  double timeout_s = 10;
  bool json = false;
};

std::string from_file(const std::filesystem::path& directory) {
  std::ifstream file(directory / "status.json");
  if (!file) {
    throw run::ConfigError(directory.string() +
                           ": no status.json; name the directory of a region that was started");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whose key is in the directory, if there is one alone.
std::string only_name(const std::filesystem::path& certificates) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(certificates, missing)) {
    if (entry.path().extension() == ".key" && entry.path().stem() != "ca") {
      names.push_back(entry.path().stem());
    }
  }
  if (names.size() == 1) return names.front();
  std::string known;
  for (const std::string& name : names) known += " " + name;
  throw run::ConfigError(
      names.empty()
          ? "--certificates " + certificates.string() +
                ": no certificate and key there; a region's or an observer's is needed "
                "(`causeway certs add-observer NAME`), and ca.crt"
          : "--as NAME is needed: --certificates " + certificates.string() + " has" + known);
}

inter::Endpoint address_of(const std::string& target) {
  try {
    return inter::parse_endpoint(target);
  } catch (const std::system_error&) {
    throw run::ConfigError(target + ": neither a region's directory nor HOST:PORT");
  }
}

std::string from_network(const StatusFlags& flags) {
  const inter::Endpoint address = address_of(flags.target);
  const std::string name = flags.as.empty() ? only_name(flags.certificates) : flags.as;
  return inter::observe(
      {.address = address,
       .credentials = inter::credentials_in(flags.certificates, name),
       .deadline = std::chrono::milliseconds(std::llround(1e3 * flags.timeout_s))});
}

// When the coordinator wrote last.
std::string time_of(const std::filesystem::path& file) {
  struct stat written {};
  std::tm utc{};
  std::array<char, 32> text{};
  if (::stat(file.c_str(), &written) != 0 || ::gmtime_r(&written.st_mtime, &utc) == nullptr)
    return "an unknown time";
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// What the file says holds only while a coordinator holds the directory.
int show(const StatusFlags& flags) {
  const std::filesystem::path directory = flags.target;
  const bool local = std::filesystem::is_directory(directory);
  const bool runs = !local || diloco::is_locked(directory / "ledger" / "lock");
  const std::string text = local ? from_file(directory) : from_network(flags);
  const auto status = nlohmann::json::parse(text, nullptr, false);
  if (!status.is_object())
    throw run::ConfigError(flags.target +
                           ": the answer is not a status; name a running coordinator of this "
                           "program version, or its directory");
  if (flags.json) {
    std::cout << text;
  } else {
    print(status, runs);
  }
  const bool over = status.value("finished", false);
  if (!runs && !flags.json) {
    std::cout << "  stopped: no coordinator runs here; the above is what it wrote last, at "
              << time_of(directory / "status.json")
              << (over ? "\n" : ". Start it again to go on\n");
  }
  return runs || over ? 0 : kNobodyThere;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "Show what a region does and for whom it waits");
  command
      ->add_option(
          "ADDRESS", flags->target,
          "HOST:PORT that a region's coordinator listens on, or its directory on this host")
      ->required();
  command->add_flag("--json", flags->json, "Print JSON, as the coordinator writes it");
  command
      ->add_option("--certificates", flags->certificates,
                   "For HOST:PORT: directory with ca.crt and a region's or an observer's "
                   "certificate and key")
      ->capture_default_str();
  command->add_option("--as", flags->as, "Whose certificate to use, if that directory has several");
  command->add_option("--timeout", flags->timeout_s, "Seconds to wait for the answer")
      ->check(number_from(0.1, 600))
      ->capture_default_str();
  command->footer(
      "Exit code 0: it runs, or the run is over. 3: nobody answers there; of a directory, its\n"
      "coordinator was stopped before the run was over, and its last state is shown.");
  command->callback([flags, &exit_code] { exit_code = show(*flags); });
}

}  // namespace causeway::apps
