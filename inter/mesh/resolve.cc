#include "inter/mesh/resolve.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>

#include "inter/base/async.h"
#include "inter/base/error.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;
using Addresses = std::vector<tcp::endpoint>;

constexpr std::chrono::milliseconds kMeanwhile{500};

struct Found {
  std::error_code error;
  Addresses addresses;
};

// Waits as long as the system does.
Found look_up(const Endpoint& endpoint) {
  Found found;
  asio::io_context unused;  // Asio's resolver wants one
  const auto entries =
      tcp::resolver(unused).resolve(endpoint.host, std::to_string(endpoint.port), found.error);
  for (const auto& entry : entries) found.addresses.push_back(entry.endpoint());
  return found;
}

// In a thread that nobody joins; `done` is called there.
void look_up_apart(const Endpoint& endpoint, std::function<void(Found)> done) {
  try {
    std::thread([endpoint, done = std::move(done)] { done(look_up(endpoint)); }).detach();
  } catch (const std::system_error& error) {  // no thread to be had, now
    throw LinkError(error.code(), "cannot look up " + endpoint.host + ": " + error.what());
  }
}

// Nothing: it is a name.
std::optional<Addresses> numeric(const Endpoint& endpoint) {
  std::error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  return error ? std::nullopt : std::optional(Addresses{{address, endpoint.port}});
}

Addresses checked(const Endpoint& endpoint, std::chrono::milliseconds limit,
                  std::optional<Found> found) {
  const std::string what = "cannot look up " + endpoint.host + ": ";
  if (!found) throw LinkError(Errc::deadline, what + "no answer within " + seconds_text(limit));
  if (found->error) throw LinkError(found->error, what + found->error.message());
  return std::move(found->addresses);
}

// What the thread shares with the coroutine, which may be gone before the thread has an answer, and
// the executor with it.
struct Lookup {
  std::mutex mutex;
  std::optional<asio::any_io_executor> executor;  // under the mutex; nothing: nobody waits
  Signal* arrived = nullptr;                      // on the executor, as what follows
  std::optional<Found> found;
};

void hand_over(const std::shared_ptr<Lookup>& lookup, Found found) {
  const std::lock_guard lock(lookup->mutex);
  if (!lookup->executor) return;
  asio::post(*lookup->executor, [lookup, found = std::move(found)] {
    lookup->found = found;
    if (lookup->arrived != nullptr) lookup->arrived->notify();
  });
}

class Waiting {
 public:
  explicit Waiting(const asio::any_io_executor& executor) : arrived_(executor) {
    lookup_->executor = executor;
    lookup_->arrived = &arrived_;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    const std::lock_guard lock(lookup_->mutex);
    lookup_->executor.reset();
    lookup_->arrived = nullptr;
  }

  const std::shared_ptr<Lookup>& lookup() const { return lookup_; }
  Signal& arrived() { return arrived_; }

 private:
  Signal arrived_;
  std::shared_ptr<Lookup> lookup_ = std::make_shared<Lookup>();
};

}  // namespace

asio::awaitable<Addresses> resolve(Endpoint endpoint, std::chrono::milliseconds limit) {
  if (endpoint.port == 0) {  // a file that leaves `listen` out
    throw LinkError(
        Errc::bad_address,
        "nobody can dial port 0: give the region a port in the file, `listen` or `advertise`");
  }
  if (auto addresses = numeric(endpoint)) co_return std::move(*addresses);
  const auto executor = co_await asio::this_coro::executor;
  Waiting waiting(executor);
  const auto lookup = waiting.lookup();
  look_up_apart(endpoint, [lookup](Found found) { hand_over(lookup, std::move(found)); });
  bool late = false;
  const Deadline deadline(executor, limit, [&] {
    late = true;
    waiting.arrived().notify();
  });
  while (!lookup->found && !late) co_await waiting.arrived().wait();
  co_return checked(endpoint, limit, std::move(lookup->found));
}

Addresses wait_to_resolve(const Endpoint& endpoint, std::chrono::milliseconds limit,
                          const std::function<void()>& meanwhile) {
  if (auto addresses = numeric(endpoint)) return std::move(*addresses);
  const auto answer = std::make_shared<std::promise<Found>>();
  std::future<Found> found = answer->get_future();
  look_up_apart(endpoint, [answer](Found arrived) { answer->set_value(std::move(arrived)); });
  const auto deadline = std::chrono::steady_clock::now() + limit;
  bool in_time = false;
  for (auto now = deadline - limit; !in_time && now < deadline;
       now = std::chrono::steady_clock::now()) {
    in_time = found.wait_until(std::min(deadline, now + kMeanwhile)) == std::future_status::ready;
    if (!in_time && meanwhile) meanwhile();
  }
  return checked(endpoint, limit, in_time ? std::optional(found.get()) : std::nullopt);
}

tcp::endpoint listening_address(const Endpoint& bind, std::chrono::milliseconds limit,
                                const std::function<void()>& meanwhile) {
  if (!bind.host.empty()) return wait_to_resolve(bind, limit, meanwhile).front();
  asio::io_context unused;
  const auto found =
      tcp::resolver(unused).resolve("", std::to_string(bind.port), tcp::resolver::passive);
  return found.begin()->endpoint();
}

}  // namespace causeway::inter
