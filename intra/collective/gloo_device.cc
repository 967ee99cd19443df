#include "intra/collective/gloo_device.h"

#include <poll.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace causeway::intra {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{100};
// What a rank sent before it left has arrived by then.
constexpr milliseconds kGrace{1'000};

// A wait of a send or a receive.
struct Wait {
  gloo::transport::UnboundBuffer& buffer;
  bool sends;
  const std::set<int>& peers;
  bool seen = false;   // by the watch: it is not new
  bool ended = false;  // as one of them is gone
};

// Looks after the connections of one group, in a thread of its own.
class Watch {
 public:
  Watch(std::shared_ptr<gloo::transport::Context> tcp, GivenUp given_up)
      : tcp_(std::move(tcp)), given_up_(std::move(given_up)), thread_([this] { look(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::unique_ptr<gloo::transport::Pair>& create_pair(int rank) {
    const std::lock_guard lock(mutex_);
    auto& pair = tcp_->createPair(rank);
    pairs_.insert(rank);
    return pair;
  }

  // From now on for breaks. A receive that nothing is sent for ends when its connection does.
  void for_breaks() {
    const std::lock_guard lock(mutex_);
    given_up_ = {};
    for (const int rank : pairs_) {
      probes_.push_back({rank, tcp_->createUnboundBuffer(&nothing_, sizeof nothing_), {}});
      probes_.back().receive->recv(rank, kNeverSent, 0, sizeof nothing_);
    }
  }

  // Runs `wait`, which may be ended from here: then it throws.
  bool during(Wait& wait, const std::function<bool()>& run) {
    bool done = false;
    {
      const Announced announced(*this, wait);
      done = run();
    }
    if (wait.ended || !done) throw gloo::IoException("the connection to a rank broke");
    return done;
  }

 private:
  static constexpr std::uint64_t kNeverSent = ~std::uint64_t{0};

  struct Probe {
    int rank;
    std::unique_ptr<gloo::transport::UnboundBuffer> receive;
    std::optional<Clock::time_point> broken_at;
  };

  class Announced {
   public:
    Announced(Watch& watch, Wait& wait) : watch_(watch) { set(&wait); }
    ~Announced() { set(nullptr); }
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;

   private:
    void set(Wait* wait) {
      const std::lock_guard lock(watch_.mutex_);
      watch_.wait_ = wait;
    }
    Watch& watch_;
  };

  void look() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [this] { return over_; })) {
      if (given_up_) {
        close_if_given_up();
      } else if (wait_ != nullptr) {
        end_if_broken();
      }
    }
  }

  void close_if_given_up() {
    if (!is_given_up()) return;
    for (const int rank : pairs_) tcp_->getPair(rank)->close();
  }

  bool is_given_up() const {
    try {
      return given_up_();
    } catch (...) {  // who is to stop hears of it in the thread that forms the group
      return true;
    }
  }

  void end_if_broken() {
    const bool is_new = !std::exchange(wait_->seen, true);
    for (Probe& probe : probes_) {
      if (!probe.broken_at && is_broken(*probe.receive)) probe.broken_at = Clock::now();
      const bool gone = probe.broken_at && Clock::now() - *probe.broken_at >= kGrace;
      if (!gone || is_new || !wait_->peers.contains(probe.rank)) continue;
      wait_->ended = true;
      wait_->sends ? wait_->buffer.abortWaitSend() : wait_->buffer.abortWaitRecv();
    }
  }

  // Without waiting: an exception comes before the end that was asked for.
  static bool is_broken(gloo::transport::UnboundBuffer& receive) {
    receive.abortWaitRecv();
    try {
      receive.waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
      return true;
    }
    return false;
  }

  std::shared_ptr<gloo::transport::Context> tcp_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  GivenUp given_up_;     // empty: the group stands
  std::set<int> pairs_;  // by rank
  std::byte nothing_{};
  std::vector<Probe> probes_;
  Wait* wait_ = nullptr;
  std::thread thread_;
};

// Of one operation of one thread.
class WatchedBuffer final : public gloo::transport::UnboundBuffer {
 public:
  WatchedBuffer(std::shared_ptr<Watch> watch, std::unique_ptr<UnboundBuffer> tcp)
      : UnboundBuffer(tcp->ptr, tcp->size), watch_(std::move(watch)), tcp_(std::move(tcp)) {}

  bool waitRecv(int* rank, milliseconds timeout) override {
    Wait wait{*tcp_, false, senders_};
    return watch_->during(wait, [&] { return tcp_->waitRecv(rank, timeout); });
  }
  bool waitSend(int* rank, milliseconds timeout) override {
    Wait wait{*tcp_, true, receivers_};
    return watch_->during(wait, [&] { return tcp_->waitSend(rank, timeout); });
  }
  void abortWaitRecv() override { tcp_->abortWaitRecv(); }
  void abortWaitSend() override { tcp_->abortWaitSend(); }
  void send(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    receivers_.insert(rank);
    tcp_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    senders_.insert(rank);
    tcp_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    senders_.insert(ranks.begin(), ranks.end());
    tcp_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<UnboundBuffer> tcp_;
  std::set<int> senders_, receivers_;
};

class WatchedContext final : public gloo::transport::Context {
 public:
  WatchedContext(std::shared_ptr<Context> tcp, GivenUp given_up)
      : Context(tcp->rank, tcp->size),
        tcp_(tcp),
        watch_(std::make_shared<Watch>(std::move(tcp), std::move(given_up))) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override { return tcp_->getPair(peer); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    tcp_->setTimeout(getTimeout());
    return watch_->create_pair(peer);
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory,
                                                                      std::size_t bytes) override {
    return std::make_unique<WatchedBuffer>(watch_, tcp_->createUnboundBuffer(memory, bytes));
  }
  void watch_for_breaks() { watch_->for_breaks(); }

 private:
  std::shared_ptr<Context> tcp_;
  std::shared_ptr<Watch> watch_;
};

class WatchedDevice final : public GlooDevice {
 public:
  WatchedDevice(std::shared_ptr<Device> tcp, GivenUp given_up)
      : tcp_(std::move(tcp)), given_up_(std::move(given_up)) {}

  std::string str() const override { return tcp_->str(); }
  const std::string& getPCIBusID() const override { return tcp_->getPCIBusID(); }
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override {
    context_ = std::make_shared<WatchedContext>(tcp_->createContext(rank, size), given_up_);
    return context_;
  }
  void watch_for_breaks() override { context_->watch_for_breaks(); }

 private:
  std::shared_ptr<Device> tcp_;
  GivenUp given_up_;
  std::shared_ptr<WatchedContext> context_;
};

}  // namespace

void PatientStore::wait(const std::vector<std::string>& keys, const milliseconds&) {
  while (!check(keys)) {
    if (given_up_ && given_up_()) throw GroupGivenUp();
    if (Clock::now() >= deadline_) throw gloo::IoException("time is up");
    ::poll(nullptr, 0, 10);
  }
}

std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address, GivenUp given_up) {
  return std::make_shared<WatchedDevice>(
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str())),
      std::move(given_up));
}

}  // namespace causeway::intra
