// causeway status: what a region's coordinator says of itself now.
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/run/config.h"

namespace causeway::apps {
namespace {

void print(const nlohmann::json& status) {
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
    std::cout << "  worker: " << progress->value("phase", std::string()) << ", step "
              << progress->value("step", 0) << ", loss " << progress->value("loss", 0.0) << "\n";
  }
  const auto links = status.find("links");
  if (links == status.end()) return;
  for (const auto& [peer, link] : links->items()) {
    std::cout << "  " << peer << ": " << (link.value("up", false) ? "up" : "DOWN")
              << ", round trip " << std::fixed << std::setprecision(1)
              << link.value("round_trip_ms", 0.0) << " ms, " << link.value("tx_bytes", 0ULL)
              << " bytes sent, " << link.value("rx_bytes", 0ULL) << " received\n";
  }
}

}  // namespace

void add_status(CLI::App& app, int&) {
  struct Flags {
    std::filesystem::path directory;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("status", "What a region does and waits for");
  command->add_option("DIRECTORY", flags->directory, "The region's directory")->required();
  command->add_flag("--json", flags->json, "As the coordinator writes it");
  command->callback([flags] {
    std::ifstream file(flags->directory / "status.json");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto status = nlohmann::json::parse(text, nullptr, false);
    if (!status.is_object()) {
      throw run::ConfigError(flags->directory.string() +
                             ": no status.json; name the directory of a region that was started");
    }
    if (flags->json) {
      std::cout << text;
    } else {
      print(status);
    }
  });
}

}  // namespace causeway::apps
