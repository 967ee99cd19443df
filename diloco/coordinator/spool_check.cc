#include "diloco/coordinator/spool_check.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

namespace causeway::diloco {
namespace {

// In a thread.
asio::awaitable<std::vector<std::pair<inter::BlobId, std::string>>> find_damaged(
    std::vector<std::pair<inter::BlobId, std::filesystem::path>> files) {
  std::vector<std::pair<inter::BlobId, std::string>> damaged;
  for (const auto& [blob, file] : files) {
    if (const auto damage = inter::damage_of(file, blob)) damaged.emplace_back(blob, *damage);
  }
  co_return damaged;
}

struct Checked {
  std::string wrong;                  // empty: it is what it was said to be
  std::optional<std::string> damage;  // of its copy here, if it is wrong
};

// Likewise.
asio::awaitable<Checked> check_in_thread(
    std::function<std::string(const std::filesystem::path&, const Digest&)> wrong_snapshot,
    std::filesystem::path file, Snapshot snapshot) {
  Checked checked;
  if (wrong_snapshot) checked.wrong = wrong_snapshot(file, snapshot.state);
  if (!checked.wrong.empty()) checked.damage = inter::damage_of(file, snapshot.blob);
  co_return checked;
}

}  // namespace

SpoolCheck::SpoolCheck(CoordinatorContext context, std::function<void()> lacking)
    : context_(std::move(context)), lacking_(std::move(lacking)), tasks_(context_.executor) {}

asio::any_io_executor SpoolCheck::thread() {
  return context_.options.copying ? context_.options.copying
                                  : asio::any_io_executor(checks_.get_executor());
}

void SpoolCheck::hand_over(std::vector<inter::BlobId> blobs, Order order) {
  tasks_.spawn(check_and_hand_over(std::move(blobs), std::move(order), ++handings_));
}

asio::awaitable<void> SpoolCheck::check_and_hand_over(std::vector<inter::BlobId> blobs, Order order,
                                                      std::uint64_t handing) {
  std::exception_ptr failure;
  std::vector<std::pair<inter::BlobId, std::string>> damaged;
  inter::Spool& spool = context_.directory.spool();
  const auto all_here = [&] {
    return std::ranges::all_of(blobs, [&spool](const auto& blob) { return spool.has(blob); });
  };
  try {
    std::vector<std::pair<inter::BlobId, std::filesystem::path>> files;
    for (const inter::BlobId& blob : blobs)
      if (spool.has(blob)) files.emplace_back(blob, spool.path(blob));
    damaged =
        co_await asio::co_spawn(thread(), find_damaged(std::move(files)), asio::use_awaitable);
  } catch (...) {
    failure = std::current_exception();
  }
  if (handing != handings_) co_return;  // it was lost meanwhile, or is told something else
  context_.ending.guard([&] {
    if (failure) std::rethrow_exception(failure);
    if (damaged.empty() && all_here()) return order();
    for (const auto& [blob, damage] : damaged) {
      if (!spool.has(blob)) continue;  // a peer that asked for it found it meanwhile
      spool.remove_damaged(blob, damage);
      context_.lose(blob);
    }
    lacking_();
  });
}

void SpoolCheck::carry_out(const CheckSnapshot& action) {
  tasks_.spawn(check(action.snapshot));
}

asio::awaitable<void> SpoolCheck::check(Snapshot snapshot) {
  std::exception_ptr failure;
  Checked checked;
  inter::Spool& spool = context_.directory.spool();
  const std::filesystem::path file = spool.path(snapshot.blob);
  try {
    // Not before the action is carried out.
    co_await asio::post(context_.executor, asio::use_awaitable);
    checked = co_await asio::co_spawn(
        thread(), check_in_thread(context_.options.wrong_snapshot, file, snapshot),
        asio::use_awaitable);
  } catch (...) {
    failure = std::current_exception();
  }
  context_.ending.guard([&] {
    if (failure) std::rethrow_exception(failure);
    if (!spool.has(snapshot.blob)) return;  // it was thrown away meanwhile
    if (checked.damage) {
      spool.remove_damaged(snapshot.blob, *checked.damage);
      return context_.lose(snapshot.blob);
    }
    if (!checked.wrong.empty())
      spdlog::error(
          "{}: what a region offers as the snapshot of version {} {}: it is not used, and another "
          "one is looked for",
          context_.options.region, snapshot.version, checked.wrong);
    context_.driver.handle(SnapshotChecked{snapshot, checked.wrong.empty()});
  });
}

}  // namespace causeway::diloco
