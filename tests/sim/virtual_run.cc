#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/sim/virtual_region.h"

namespace causeway::sim {

VirtualRun::VirtualRun(RunOptions options)
    : options_(std::move(options)),
      wan_(options_.scenario, {.mode = options_.mode,
                               .log = options_.log,
                               .on_process = [this](const auto& action) { on_process(action); }}),
      internet_(wan_) {
  for (const std::string& name : options_.scenario.regions) {
    regions_[name] = std::make_unique<Region>(*this, name);
  }
  for (const auto& [name, region] : regions_) region->start();
  poll();
}

VirtualRun::~VirtualRun() {
  for (const auto& [name, region] : regions_) region->kill();
  while (wan_.step(wan_.now())) {
  }
}

void VirtualRun::committed(const std::string& region, const CommitRecord& record) {
  if (record.round == history_.size()) {
    history_.push_back(record);
    wan_.log("commit " + std::to_string(record.round) + " of " +
             std::to_string(record.participants.size()));
  }
  if (serialize(record) != serialize(history_.at(record.round))) {
    throw std::logic_error(region + " has another history in round " +
                           std::to_string(record.round));
  }
}

void VirtualRun::poll() {
  for (const auto& [name, region] : regions_) {
    internet_.settle(name);
    region->poll();
  }
  wan_.after(kPollInterval, [this] { poll(); });
}

bool VirtualRun::finish(Time limit) {
  const auto ended = [](const auto& entry) { return entry.second->outcome().has_value(); };
  while (!std::ranges::all_of(regions_, ended) && wan_.step(limit)) {
  }
  return std::ranges::all_of(regions_, [](const auto& entry) {
    return entry.second->outcome() && entry.second->outcome()->exit_code == 0;
  });
}

void VirtualRun::kill(const std::string& region) {
  regions_.at(region)->kill();
}

void VirtualRun::start(const std::string& region) {
  wan_.at(wan_.now(), [this, region] { regions_.at(region)->start(); });
}

void VirtualRun::on_process(const wan_sim::ProcessAction& action) {
  using wan_sim::ProcessVerb;
  if (action.verb == ProcessVerb::kill || action.verb == ProcessVerb::restart) kill(action.region);
  if (action.verb == ProcessVerb::restart) start(action.region);
  if (action.verb == ProcessVerb::pause || action.verb == ProcessVerb::resume) {
    throw std::logic_error("a virtual process is not paused; stall its links instead");
  }
}

diloco::Applied VirtualRun::state(const std::string& region) const {
  return regions_.at(region)->holds();
}

double VirtualRun::wait_s(const std::string& region) const {
  return regions_.at(region)->wait_s();
}

std::string VirtualRun::describe() const {
  std::string text = "at " + std::to_string(wan_sim::in_seconds(wan_.now())) + " s";
  for (const auto& [name, region] : regions_) text += "\n  " + region->describe();
  return text;
}

}  // namespace causeway::sim
