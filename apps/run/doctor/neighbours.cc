#include "apps/run/doctor/neighbours.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "diloco/coordinator/greeting.h"
#include "inter/base/error.h"
#include "inter/blob/spool.h"
#include "inter/mesh/observer.h"
#include "inter/tls/pki.h"

namespace causeway::run {

std::string to_json(const Card& card) {
  return nlohmann::json{
      {"doctor", card.region},
      {"program", card.program},
      {"time_unix_s", card.time_unix_s},
      {"settings", card.settings},
      {"packages", card.packages},
      {"data", {{"sha256", card.data.whole}, {"sample_sha256", card.data.sample}}}}
      .dump();
}

std::string to_observer(const Card& card) {
  return nlohmann::json{
      {"region", card.region},
      {"waiting", "`causeway doctor` checks this region; no coordinator runs there"}}
      .dump();
}

SharedData data_in(const nlohmann::json& json) {
  const nlohmann::json data = object_in(json, "data");
  return {.whole = get<std::string>(data, "sha256"),
          .sample = get<std::string>(data, "sample_sha256")};
}

std::optional<Card> parse_card(const std::string& text) {
  const auto json = parse_object(text);
  if (!json || !json->contains("doctor")) return std::nullopt;
  Card card{.region = get<std::string>(*json, "doctor"),
            .program = get<std::string>(*json, "program"),
            .time_unix_s = get<double>(*json, "time_unix_s"),
            .settings = get<std::string>(*json, "settings"),
            .data = data_in(*json),
            .packages = {}};
  const nlohmann::json packages = object_in(*json, "packages");
  for (const auto& [name, version] : packages.items()) {
    if (version.is_string()) card.packages[name] = version.get<std::string>();
  }
  return card;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAnswerMax{4'000}, kPause{500}, kTick{100};
constexpr int kTriesMax = 2;
// What doctors tell each other, beside their cards.
constexpr char kReached[] = "reached", kNotReached[] = "not reached: ", kGot[] = "got it",
               kBye[] = "bye";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Visitor : public inter::MeshHandler {
 public:
  explicit Visitor(VisitOptions options)
      : options_(std::move(options)),
        spool_(options_.directory, 4 * options_.payload_bytes * (1 + options_.mesh.peers.size())),
        payload_(spool_.put(random_bytes(options_.payload_bytes))),
        timer_(context_) {
    options_.mesh.detours = false;  // what is looked at are the links themselves
    visit_.payload_bytes = options_.payload_bytes;
    for (const auto& [name, address] : options_.mesh.peers) {
      visit_.neighbours[name].address = address;
      if (!address.host.empty()) asked_.emplace_back(name, address);
    }
  }

  Visit run() {
    mesh_ = std::make_unique<inter::Mesh>(context_.get_executor(), options_.mesh, spool_, *this);
    try {
      mesh_->start();
    } catch (const std::exception& error) {
      visit_.listening_problem = error.what();
      mesh_.reset();
    }
    std::vector<std::jthread> askers;
    for (const auto& [name, address] : asked_)
      askers.emplace_back([this, name = name, address = address](const std::stop_token& stop) {
        ask(stop, name, address);
      });
    watch();
    context_.run();
    askers.clear();  // which stops them
    context_.restart();
    if (mesh_) {
      asio::co_spawn(context_, mesh_->stop(), [](std::exception_ptr) {});
      context_.run();
    }
    return std::move(visit_);
  }

 private:
  struct Talk {  // with a neighbour's doctor
    Clock::time_point pushed{};
    bool told = false;  // whether we reached it
    int failures = 0;   // to reach it since it is linked
    bool bye_sent = false, bye_heard = false;
  };

  static std::vector<std::byte> random_bytes(std::uint64_t size) {
    std::mt19937_64 chance(std::random_device{}());
    std::vector<std::byte> bytes(size);
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(chance() & 0xff); });
    return bytes;
  }

  // In a thread of its own, until it is answered or the wait is over.
  void ask(const std::stop_token& stop, const std::string& name, const inter::Endpoint& address) {
    std::mutex mutex;
    std::condition_variable_any pause;
    while (!stop.stop_requested()) {
      const double before = unix_seconds();
      const Clock::time_point began = Clock::now();
      try {
        std::string answer = inter::observe({.address = address,
                                             .credentials = options_.mesh.credentials,
                                             .deadline = kAnswerMax,
                                             .segments = inter::Segments::large});
        const double after = unix_seconds();
        asio::post(context_, [this, name, before, after, answer = std::move(answer)] {
          heard(name, answer, before, after);
        });
        return;
      } catch (const inter::LinkError& error) {
        const bool small = error.code() == inter::Errc::deadline && answers_small_packets(address);
        asio::post(context_, [this, name, began, error, small] {
          visit_.neighbours[name].small_packets_pass |= small;
          failed(name, began, error.reason(), error.code());
        });
      } catch (const std::exception& error) {  // our own files
        asio::post(context_, [this, name, began, text = std::string(error.what())] {
          failed(name, began, text, {});
        });
      }
      std::unique_lock lock(mutex);
      pause.wait_for(lock, stop, kPause, [] { return false; });
    }
  }

  bool answers_small_packets(const inter::Endpoint& address) const {
    try {
      inter::observe({.address = address,
                      .credentials = options_.mesh.credentials,
                      .deadline = kAnswerMax,
                      .segments = inter::Segments::small});
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void failed(const std::string& name, Clock::time_point began, const std::string& reason,
              std::error_code code) {
    Neighbour& neighbour = visit_.neighbours[name];
    neighbour.problem = reason;
    neighbour.problem_code = code;
    Talk& talk = talks_[name];
    // Its doctor is there and listens: it is the address that does not lead to it.
    const bool there = neighbour.linked && began > talk.pushed;
    if (there && ++talk.failures >= kTriesMax) tell(name, true);
  }

  void heard(const std::string& name, const std::string& answer, double before_s, double after_s) {
    Neighbour& neighbour = visit_.neighbours[name];
    answered_.push_back(name);
    auto card = parse_card(answer);
    const std::string who = card ? card->region : region_of(answer);
    if (who == name) {
      neighbour.problem.clear();
      take(neighbour, std::move(card), answer, before_s, after_s);
    } else {  // what it says is not that region's
      neighbour.problem = inter::to_string(neighbour.address) + " is answered by " +
                          (who.empty() ? "something else" : who);
    }
    tell(name, true);
  }

  static std::string region_of(const std::string& status) {
    const auto json = parse_object(status);
    return json ? get<std::string>(*json, "region") : "";
  }

  static void take(Neighbour& neighbour, std::optional<Card> card, const std::string& answer,
                   double before_s, double after_s) {
    if (card) {
      // It looked at its clock between these two.
      neighbour.clock_ahead_s =
          std::max(0.0, card->time_unix_s - after_s) + std::min(0.0, card->time_unix_s - before_s);
      neighbour.card = std::move(card);
    } else {
      neighbour.status = answer;
    }
  }

  bool has_answered(const std::string& name) const {
    return std::ranges::find(answered_, name) != answered_.end();
  }

  // Whether we reached it; `final`: we do not try any more.
  void tell(const std::string& name, bool final) {
    const Neighbour& neighbour = visit_.neighbours[name];
    Talk& talk = talks_[name];
    const bool answered = has_answered(name) || neighbour.address.host.empty();
    const bool reached = answered && neighbour.problem.empty();
    if (!neighbour.linked || talk.told || (!answered && !final)) return;
    talk.told = true;
    mesh_->send(name, reached ? kReached : kNotReached + neighbour.problem);
  }

  std::string greeting() override {
    return std::string(diloco::kDoctorGreeting) + to_json(options_.card);
  }
  std::string judge_greeting(const std::string& peer, const std::string& greeting) override {
    const bool doctors = greeting.starts_with(diloco::kDoctorGreeting);
    auto card =
        doctors ? parse_card(greeting.substr(diloco::kDoctorGreeting.size())) : std::nullopt;
    if (!card) return "this region is being checked (causeway doctor): no coordinator runs there";
    visit_.neighbours[peer].card = std::move(card);
    return "";
  }
  // The card is for those who share what it says.
  std::string report(const std::string& asker) override {
    if (inter::is_observer(asker)) return to_observer(options_.card);
    Card card = options_.card;
    card.time_unix_s = unix_seconds();
    return to_json(card);
  }
  void on_refused_by(const std::string&, const inter::LinkError&) override {}

  void on_peer_up(const std::string& peer, const std::string&) override {
    visit_.neighbours[peer].linked = true;
    Talk& talk = talks_[peer];
    talk.bye_heard = false;
    if (talk.pushed == Clock::time_point{}) talk.pushed = Clock::now();
    mesh_->push_blob(peer, payload_);
    tell(peer, false);
  }
  void on_peer_down(const std::string& peer, const std::string&) override {
    talks_[peer].bye_heard = true;
  }
  void on_message(const std::string& peer, const std::string& message) override {
    Neighbour& neighbour = visit_.neighbours[peer];
    if (message == kGot) {
      neighbour.payload_s = std::max(1e-6, seconds_since(talks_[peer].pushed));
    } else if (message == kReached) {
      neighbour.says_of_us = "";
    } else if (message.starts_with(kNotReached)) {
      neighbour.says_of_us = message.substr(sizeof kNotReached - 1).substr(0, 500);
    } else if (message == kBye) {
      talks_[peer].bye_heard = true;
    }
  }
  void on_blob(const std::string& from, const inter::BlobId& id) override {
    visit_.neighbours[from].payload_came = true;
    mesh_->send(from, kGot);
    spool_.remove(id);
  }

  // Nothing more can be learnt about it.
  bool is_known(const std::string& name, const Neighbour& neighbour) {
    if (neighbour.status) return true;
    if (neighbour.address.host.empty() && options_.mesh.dial_only) return true;  // never linked
    if (!mesh_) return has_answered(name);
    Talk& talk = talks_[name];
    const bool all = neighbour.linked && neighbour.payload_s > 0 && neighbour.payload_came &&
                     neighbour.says_of_us && talk.told;
    if (all && !talk.bye_sent) {
      talk.bye_sent = true;
      mesh_->send(name, kBye);
    }
    return all && talk.bye_heard;
  }

  void watch() {
    const auto now = Clock::now();
    const bool waited = now > began_ + options_.wait;
    bool known = true, under_way = false;
    for (auto& [name, neighbour] : visit_.neighbours) {
      if (mesh_) tell(name, waited);
      const bool is = is_known(name, neighbour);
      known = known && is;
      under_way = under_way || (!is && neighbour.linked && !talks_[name].bye_heard);
    }
    const bool late = now > began_ + options_.wait + options_.transfer;
    if (known || late || (waited && !under_way)) return finish();
    timer_.expires_after(kTick);
    timer_.async_wait([this](std::error_code error) {
      if (!error) watch();
    });
  }

  void finish() {
    if (mesh_) {
      for (const auto& [name, link] : mesh_->stats()) visit_.neighbours[name].link = link;
    }
    context_.stop();
  }

  VisitOptions options_;
  inter::Spool spool_;
  inter::BlobId payload_;
  asio::io_context context_{1};
  asio::steady_timer timer_;
  std::unique_ptr<inter::Mesh> mesh_;
  Clock::time_point began_ = Clock::now();
  std::vector<std::pair<std::string, inter::Endpoint>> asked_;
  std::vector<std::string> answered_;
  std::map<std::string, Talk> talks_;
  Visit visit_;
};

}  // namespace

Visit visit_neighbours(VisitOptions options) {
  const std::filesystem::path directory = options.directory;
  Visit visit = Visitor(std::move(options)).run();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return visit;
}

}  // namespace causeway::run
