#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <system_error>

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/collective/gloo_device.h"

namespace causeway::intra {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Gloo writes to sockets without MSG_NOSIGNAL, so a dead peer would kill this process too. Blocks
// SIGPIPE in the calling thread (and in those it creates meanwhile) and swallows the one that came,
// so that the process's own handling of signals is left alone.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &previous_);
  }
  ~SigpipeBlocked() {
    const timespec no_time{};
    if (!sigismember(&previous_, SIGPIPE)) sigtimedwait(&sigpipe_, nullptr, &no_time);
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_, previous_;
};

// The directory in which ranks leave their addresses. Removes what this rank left: once the group
// stands, or failed, nobody needs it.
class AddressBook {
 public:
  AddressBook(const Rendezvous& rendezvous, PatientStore::Clock::time_point deadline)
      : files_(created(rendezvous.directory), deadline, rendezvous.given_up),
        store_(rendezvous.generation, files_) {}
  ~AddressBook() {
    std::error_code ignored;
    for (const std::string& file : files_.getAllKeyFilePaths()) {
      std::filesystem::remove(file, ignored);
    }
  }
  AddressBook(const AddressBook&) = delete;
  AddressBook& operator=(const AddressBook&) = delete;

  gloo::rendezvous::Store& store() { return store_; }

 private:
  static std::string created(const std::filesystem::path& directory) {
    diloco::create_private_directories(directory);
    return directory.string();
  }

  PatientStore files_;
  gloo::rendezvous::PrefixStore store_;
};

std::string address_of(const Rendezvous& rendezvous) {
  return rendezvous.host.empty() ? "127.0.0.1" : local_address_towards(rendezvous.host);
}

class GlooCollective final : public Collective {
 public:
  explicit GlooCollective(const Rendezvous& rendezvous);

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return world_; }
  void all_reduce_sum(std::span<float> values) override;
  void broadcast(std::span<std::byte> bytes, std::size_t root) override;
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override;
  void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                      std::span<float> received) override;
  void barrier() override;

 private:
  void form(const Rendezvous& rendezvous);
  void await_everyone(gloo::rendezvous::Store& store);
  std::vector<std::size_t> all_gather_size(std::size_t mine);

  // Runs one operation; turns its failure into Errc::collective and breaks the group, for the
  // others' sake too: their connections to this rank close, so that they fail now and not at their
  // deadline.
  template <typename Operation>
  void run(const char* name, Operation&& operation);
  std::system_error failure(const char* name, const std::string& why) const;

  std::size_t rank_, world_;
  std::string generation_;
  Milliseconds deadline_;
  bool broken_ = false;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

std::system_error GlooCollective::failure(const char* name, const std::string& why) const {
  return {Errc::collective, fmt::format("{} on rank {} of {}, group '{}', deadline {} ms: {}", name,
                                        rank_, world_, generation_, deadline_.count(), why)};
}

template <typename Operation>
void GlooCollective::run(const char* name, Operation&& operation) {
  if (broken_) throw failure(name, "the group broke earlier; form a new one");
  const SigpipeBlocked guard;
  try {
    operation();
  } catch (const std::exception& error) {
    broken_ = true;
    context_->closeConnections();
    throw failure(name, std::string("a rank died or hung: ") + error.what());
  }
}

GlooCollective::GlooCollective(const Rendezvous& rendezvous)
    : rank_(rendezvous.rank),
      world_(rendezvous.world),
      generation_(rendezvous.generation),
      deadline_(rendezvous.deadline) {
  const SigpipeBlocked guard;
  try {
    form(rendezvous);
  } catch (const std::system_error& error) {
    if (error.code() == Errc::collective) throw;
    throw failure("forming the group", error.what());
  } catch (const std::exception& error) {
    throw failure("forming the group", error.what());
  }
}

void GlooCollective::form(const Rendezvous& rendezvous) {
  const PatientStore::Clock::time_point end = PatientStore::Clock::now() + deadline_;
  AddressBook book(rendezvous, end);
  await_everyone(book.store());
  const auto device = make_gloo_device(address_of(rendezvous), rendezvous.given_up);
  context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank_),
                                                         static_cast<int>(world_));
  // Gloo waits for a connection five times as long as for an operation, and reads zero as no limit.
  const auto left = std::chrono::duration_cast<Milliseconds>(end - PatientStore::Clock::now());
  context_->setTimeout(std::max(left / 5, Milliseconds(1)));
  std::shared_ptr<gloo::transport::Device> connecting = device;
  try {
    context_->connectFullMesh(book.store(), connecting);
    device->watch_for_breaks();
  } catch (const std::exception&) {  // its sockets are closed when it is given up
    if (rendezvous.given_up && rendezvous.given_up()) throw GroupGivenUp();
    throw;
  }
  context_->setTimeout(deadline_);
  // Past this point every rank has read every address, so that the book may close.
  barrier();
}

// Tells who is missing, which Gloo's own wait for an address would not.
void GlooCollective::await_everyone(gloo::rendezvous::Store& store) {
  store.set(fmt::format("here{}", rank_), {'1'});
  for (std::size_t other = 0; other < world_; ++other) {
    try {
      store.wait({fmt::format("here{}", other)});
    } catch (const GroupGivenUp&) {
      throw;
    } catch (const std::exception&) {
      throw failure("forming the group", fmt::format("rank {} did not come", other));
    }
  }
}

void GlooCollective::all_reduce_sum(std::span<float> values) {
  if (values.empty()) return;
  run("all-reduce", [&] {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    // The ring sums each chunk on one rank and passes the result on, so that all ranks hold the
    // same bits.
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  });
}

void GlooCollective::broadcast(std::span<std::byte> bytes, std::size_t root) {
  assert(root < world_);
  if (bytes.empty()) return;
  run("broadcast", [&] {
    gloo::BroadcastOptions options(context_);
    options.setOutput(bytes.data(), bytes.size());
    options.setRoot(static_cast<int>(root));
    gloo::broadcast(options);
  });
}

std::vector<std::size_t> GlooCollective::all_gather_size(std::size_t mine) {
  std::vector<std::size_t> sizes(world_);
  gloo::AllgatherOptions options(context_);
  options.setInput(&mine, 1);
  options.setOutput(sizes.data(), sizes.size());
  gloo::allgather(options);
  return sizes;
}

std::vector<std::vector<std::byte>> GlooCollective::all_gather(std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> parts(world_);
  run("all-gather", [&] {
    const std::vector<std::size_t> sizes = all_gather_size(mine.size());
    const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    if (total == 0) return;
    std::vector<std::byte> all(total);
    const auto own = sizes.begin() + static_cast<std::ptrdiff_t>(rank_);
    const std::size_t before = std::accumulate(sizes.begin(), own, std::size_t{0});
    std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(before));
    gloo::AllgathervOptions options(context_);
    options.setOutput(all.data(), sizes);
    gloo::allgatherv(options);
    auto begin = all.begin();
    for (std::size_t other = 0; other < world_; ++other) {
      const auto end = begin + static_cast<std::ptrdiff_t>(sizes[other]);
      parts[other].assign(begin, end);
      begin = end;
    }
  });
  return parts;
}

void GlooCollective::exchange_parts(std::span<const float> values,
                                    std::span<const std::size_t> counts,
                                    std::span<float> received) {
  assert(counts.size() == world_ && received.size() == world_ * counts[rank_]);
  if (values.empty()) return;
  run("exchange", [&] {
    gloo::AlltoallvOptions options(context_);
    options.setInput(const_cast<float*>(values.data()),  // Gloo reads it
                     std::vector<std::int64_t>(counts.begin(), counts.end()));
    options.setOutput(received.data(),
                      std::vector<std::int64_t>(world_, static_cast<std::int64_t>(counts[rank_])));
    gloo::alltoallv(options);
  });
}

void GlooCollective::barrier() {
  run("barrier", [&] {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  });
}

}  // namespace

std::unique_ptr<Collective> make_gloo_collective(const Rendezvous& rendezvous) {
  assert(rendezvous.world > 1 && rendezvous.rank < rendezvous.world);
  return std::make_unique<GlooCollective>(rendezvous);
}

std::unique_ptr<Collective> make_collective(const Rendezvous& rendezvous) {
  assert(rendezvous.rank < rendezvous.world);
  return rendezvous.world == 1 ? make_solo_collective() : make_gloo_collective(rendezvous);
}

namespace {

[[noreturn]] void refuse_address(const std::string& host, const std::string& why) {
  throw std::system_error(Errc::collective,
                          "no address of this host on the network of " + host +
                              ", where the ranks meet: " + why +
                              "; set MASTER_ADDR to a host on a network that all ranks reach");
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) throw std::system_error(Errc::collective, ::gai_strerror(error));
  return text.data();
}

// Connecting a datagram socket sends nothing; it only chooses the route.
bool own_end(const addrinfo& target, sockaddr_storage& own, socklen_t& size) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  size = sizeof own;
  const bool found = ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return found;
}

}  // namespace

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // Any port: nothing is sent there.
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &found); error != 0)
    refuse_address(host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> targets(found, ::freeaddrinfo);
  sockaddr_storage own{};
  socklen_t size = 0;
  if (!own_end(*targets, own, size)) refuse_address(host, std::strerror(errno));
  return numeric(reinterpret_cast<const sockaddr*>(&own), size);
}

std::string interface_towards(const std::string& host) {
  const std::string own = local_address_towards(host);
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (numeric(each->ifa_addr, size) == own) return each->ifa_name;
  }
  return {};
}

}  // namespace causeway::intra
