// Gloo's file store and TCP transport, in which nobody waits for a rank that is gone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/device.h>

namespace causeway::intra {

// Asked several times a second while a group forms, also by another thread: true, and it is not
// waited for any longer.
using GivenUp = std::function<bool()>;

// What a wait of a group that forms ends with.
struct GroupGivenUp : std::runtime_error {
  GroupGivenUp() : std::runtime_error("it was given up: a rank left, or this one is to stop") {}
};

// Its waits end at one deadline for all: Gloo's would last as long as is said for each of them.
class PatientStore final : public gloo::rendezvous::FileStore {
 public:
  using Clock = std::chrono::steady_clock;

  PatientStore(const std::string& directory, Clock::time_point deadline, GivenUp given_up)
      : FileStore(directory), deadline_(deadline), given_up_(std::move(given_up)) {}

  using FileStore::wait;
  // Throws GroupGivenUp, or another exception at the deadline.
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override;

 private:
  Clock::time_point deadline_;
  GivenUp given_up_;
};

// Gloo's TCP. Sends and receives end about a second after the connection broke: Gloo's own (that of
// 2025, too) end so only if no byte was on its way, and wait for their deadline otherwise, though
// the other process is dead.
class GlooDevice : public gloo::transport::Device {
 public:
  // A group was connected by this device: from now on it is watched for breaks. Before that, waits
  // for connections end when the group is given up; `given_up` is not asked any more.
  virtual void watch_for_breaks() = 0;
};
// For one group. Throws gloo's exceptions if this host does not have the address.
std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address, GivenUp given_up);

}  // namespace causeway::intra
