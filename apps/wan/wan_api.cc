#include "apps/wan/wan_api.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <asio/post.hpp>
#include <nlohmann/json.hpp>

#include "apps/wan/wan_command.h"
#include "apps/wan/wan_pages.h"
#include "wan-sim/base/error.h"

namespace causeway::apps {
namespace {

using run::HttpAnswer;
using run::HttpRequest;

constexpr std::size_t kCommandBytesMax = 4096;
constexpr std::chrono::milliseconds kLookAgain{100};
constexpr char kJson[] = "application/json";

const std::vector<std::string> kPages{"/",        "/healthz", "/links",
                                      "/maps",    "/regions", "/metrics",
                                      "/verdict", "/capture", "/openapi.json"};

HttpAnswer json_answer(int status, std::string text) {
  return {.status = status, .text = std::move(text) + "\n", .type = kJson};
}

std::string error_json(const std::string& problem) {
  return nlohmann::json{{"error", problem}}.dump(-1, ' ', false,
                                                 nlohmann::json::error_handler_t::replace);
}

}  // namespace

WanApi::WanApi(const inter::Endpoint& address)
    : server_("wan-sim --http", address, {.body_bytes = kCommandBytesMax}) {}

void WanApi::start(Source source) {
  source_ = std::move(source);
  server_.start([this](HttpRequest request, const run::HttpServer::Patience&) {
    return answer(std::move(request));
  });
}

WanApi::~WanApi() {
  ending_ = true;
  server_.stop();
}

bool WanApi::acts(const std::string& path) const {
  return path == "/command" || wan_command_verbs(source_.engine).contains(path);
}

asio::awaitable<HttpAnswer> WanApi::answer(HttpRequest request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool has_page = std::ranges::count(kPages, request.path) > 0;
  const bool acting = acts(request.path) || (request.path == "/capture" && !reads);
  if (!acting && !has_page)
    co_return HttpAnswer{.status = 404, .text = "/openapi.json says what there is\n"};
  if (acting ? request.method != "POST" : !reads)
    co_return HttpAnswer{.status = 405, .text = acting ? "only POST\n" : "only GET\n"};
  // A page of somebody else, open in the user's browser, would reach loopback too.
  if (acting && request.of_a_page)
    co_return HttpAnswer{.status = 403, .text = "not for web pages (Origin)\n"};
  if (request.path == "/healthz") co_return HttpAnswer{.text = "ok\n"};
  if (request.path == "/openapi.json") co_return HttpAnswer{.text = kWanOpenApi, .type = kJson};
  if (request.path == "/")
    co_return HttpAnswer{.text = kWanPage, .type = "text/html; charset=utf-8"};
  // A variable: in the co_await itself, GCC 12 would destroy what it captures twice.
  const std::function<HttpAnswer()> made = [this, acting, request] {
    return acting ? act(request.path, request.body) : page(request.path);
  };
  co_return co_await server_.make(made, "too many requests wait for the engine\n");
}

HttpAnswer WanApi::page(const std::string& path) {
  const auto figures = on_engine<WanFigures>(source_.look);
  if (path == "/links") return json_answer(200, links_json(figures));
  if (path == "/maps") return json_answer(200, maps_json(figures));
  if (path == "/regions") return json_answer(200, regions_json(figures));
  if (path == "/verdict") return json_answer(200, verdict_json(figures));
  if (path == "/capture") return json_answer(200, capture_json(figures));
  return {.text = metrics_text(figures), .type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpAnswer WanApi::act(const std::string& path, const std::string& body) {
  try {
    const std::function<void()> act = act_of(path, body);
    on_engine<bool>([act] {
      act();
      return true;
    });
    return json_answer(200, R"({"ok": true})");
  } catch (const std::system_error& error) {
    if (error.code() != wan_sim::Errc::bad_scenario) throw;
    return json_answer(400, error_json(error.what()));
  }
}

std::function<void()> WanApi::act_of(const std::string& path, const std::string& body) const {
  if (path == "/capture") return [this, on = wan_capture_wish(body)] { source_.capture(on); };
  return [this, lines = wan_command_lines(source_.engine, path, body)] {
    for (const std::string& line : lines) source_.command(line);
  };
}

// Asks on the engine's thread, from the server's other one. The engine may end without answering.
template <typename Result>
Result WanApi::on_engine(std::function<Result()> ask) {
  const auto promise = std::make_shared<std::promise<Result>>();
  asio::post(source_.executor, [promise, ask = std::move(ask)] {
    try {
      promise->set_value(ask());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  std::future<Result> result = promise->get_future();
  while (result.wait_for(kLookAgain) != std::future_status::ready) {
    if (ending_) throw std::runtime_error("the WAN ends");
  }
  return result.get();
}

}  // namespace causeway::apps
