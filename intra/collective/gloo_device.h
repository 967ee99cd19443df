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

// True: the group is not waited for any longer. Asked often while it forms, also by another thread.
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
// the other process is dead. A rank that leaves a group while others are still in an operation with
// it ends that for them, too, even if it had done its part.
class GlooDevice : public gloo::transport::Device {
 public:
  // The group is connected, and watched for breaks from now on. Before that, waits for connections
  // end when it is given up; from now on `given_up` is not asked.
  virtual void watch_for_breaks() = 0;
};
// For one group. Throws gloo's exceptions if this host does not have the address.
std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address, GivenUp given_up);

}  // namespace causeway::intra
