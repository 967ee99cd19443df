#include "apps/run/tune/world.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "wan-sim/virtual/internet.h"
#include "wan-sim/virtual/internet_site.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {
wan_sim::Scenario without_processes(wan_sim::Scenario scenario) {
  std::erase_if(scenario.timeline, [](const wan_sim::TimedAction& timed) {
    return std::holds_alternative<wan_sim::ProcessAction>(timed.action.what);
  });
  return scenario;
}

wan_sim::VirtualMode mode_for(const wan_sim::Scenario& scenario) {
  try {
    wan_sim::require_honoured(scenario, wan_sim::Engine::virtual_fluid);
    return wan_sim::VirtualMode::fluid;
  } catch (const std::system_error&) {
    return wan_sim::VirtualMode::chunks;
  }
}

namespace {

class VirtualWorld : public diloco::tuner::World {
 public:
  VirtualWorld(const wan_sim::Scenario& scenario, std::optional<inter::Shape> topology)
      : wan_(without_processes(scenario), {.mode = mode_for(scenario)}),
        internet_(wan_, {.topology = topology}) {}

  diloco::Time now() const override { return std::chrono::duration_cast<diloco::Time>(wan_.now()); }
  void after(diloco::Time delay, std::function<void()> event) override {
    wan_.after(delay, std::move(event));
  }
  bool step(diloco::Time limit) override {
    const auto longest = std::chrono::duration_cast<diloco::Time>(wan_sim::Time::max());
    return wan_.step(limit >= longest ? wan_sim::Time::max() : wan_sim::Time{limit});
  }

  std::unique_ptr<inter::Channel> start(const std::string& region, std::string greeting,
                                        inter::MeshHandler& handler) override {
    return internet_.start(region, std::move(greeting), spools_[region], handler);
  }
  void hold(const std::string& region, const inter::BlobId& blob) override {
    spools_[region].put(blob);
  }
  void release(const std::string& region, const inter::BlobId& blob) override {
    spools_[region].remove(blob);
  }
  std::uint64_t received_bytes(const std::string& region, const inter::BlobId& blob) override {
    internet_.settle();
    return spools_[region].received_bytes(blob);
  }
  std::uint64_t sent_bytes(const std::string& region) const override {
    return internet_.sent_bytes(region);
  }

 private:
  wan_sim::VirtualWan wan_;
  std::map<std::string, wan_sim::PhantomSpool> spools_;
  wan_sim::Internet internet_;
};

}  // namespace

std::unique_ptr<diloco::tuner::World> make_virtual_world(const wan_sim::Scenario& scenario,
                                                         std::optional<inter::Shape> topology) {
  return std::make_unique<VirtualWorld>(scenario, topology);
}

}  // namespace causeway::run
