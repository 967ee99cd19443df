#include "diloco/coordinator/shard_summer.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/coordinator.h"
#include "diloco/coordinator/spool_copy.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/maths/layout.h"
#include "inter/base/error.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

constexpr std::chrono::seconds kRoomAgain{1};

std::size_t thread_count() {
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U);
}

}  // namespace

ShardTools::FirstOf first_statistics(const NamedTensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const NamedTensor& one : tensors) specs.push_back({one.name, one.shape});
  const Layout layout(std::move(specs));
  const auto first = [&layout](SegmentClass kind) -> std::optional<std::uint32_t> {
    const auto found = std::ranges::find(layout.segments(), kind, &Segment::kind);
    if (found == layout.segments().end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - layout.segments().begin());
  };
  return {first(SegmentClass::averaged), first(SegmentClass::lowest)};
}

// What a thread does and finds.
struct ShardSummer::Work {
  std::vector<std::pair<inter::BlobId, std::filesystem::path>> inputs;
  std::vector<Participant> participants;  // in the order of the inputs
  ShardTools::FirstOf first;
  const ShardTools* tools = nullptr;

  std::vector<std::pair<inter::BlobId, std::string>> damaged;
  ShardTools::Sum sum;
  Copied copied;

  // A disk can change what it keeps: what counts is hashed once more.
  SealedBytes make() {
    std::vector<MappedBytes> mapped;
    std::vector<ShardTools::Term> terms;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& [blob, file] = inputs[i];
      Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
      auto damage = inter::damage_of(file, blob);
      if (descriptor.get() < 0) damage = "is not there any more";
      if (damage) {
        damaged.emplace_back(blob, *damage);
        continue;
      }
      mapped.emplace_back(descriptor.release(), blob.size_bytes);
      terms.push_back({mapped.back().bytes(), participants[i].weight, participants[i].region});
    }
    if (!damaged.empty()) return {};
    sum = tools->sum(terms, first);
    SealedBytes sealed{std::span<const std::byte>(sum.payload)};
    sum.payload = {};
    return sealed;
  }
};

namespace {

// A coroutine for co_spawn's sake, which brings back what it returns or throws.
template <typename Work>
asio::awaitable<SealedBytes> make_in_thread(std::shared_ptr<Work> work) {
  co_return work->make();
}

}  // namespace

ShardSummer::ShardSummer(CoordinatorContext context)
    : context_(std::move(context)),
      tasks_(context_.executor),
      threads_(thread_count()),
      thread_(context_.options.copying ? context_.options.copying : threads_.get_executor()) {}

void ShardSummer::carry_out(const SumShard& action) {
  if (!context_.ending.closing()) tasks_.spawn(sum(action));
}

asio::awaitable<void> ShardSummer::sum(SumShard action) {
  const auto work = std::make_shared<Work>();
  std::exception_ptr failure;
  try {
    co_await make(action, work);
  } catch (...) {
    failure = std::current_exception();
  }
  context_.ending.guard([&] {
    if (failure) std::rethrow_exception(failure);
    finish(action, *work);
  });
}

asio::awaitable<void> ShardSummer::make(const SumShard& action, std::shared_ptr<Work> work) {
  const inter::Spool& spool = context_.directory.spool();
  for (const inter::BlobId& blob : action.inputs)
    if (spool.has(blob)) work->inputs.emplace_back(blob, spool.path(blob));
  if (work->inputs.size() < action.inputs.size()) co_return;
  work->participants = action.draft.participants;
  work->first = first_statistics(context_.protocol().tensors());
  work->tools = &context_.options.shards;
  const SealedBytes made =
      co_await asio::co_spawn(thread_, make_in_thread(work), asio::use_awaitable);
  if (!made.empty()) work->copied = co_await store(made, draft_digest(action.draft));
}

// What is summed is kept while the spool has no room for it: to sum it again would take long.
asio::awaitable<Copied> ShardSummer::store(const SealedBytes& sum, const Digest& draft) {
  asio::steady_timer timer(context_.executor);
  do {
    try {
      co_return co_await copy_to_spool(sum.share(), context_.directory.spool(), thread_);
    } catch (const std::system_error& error) {
      if (error.code() != inter::Errc::spool_full) throw;
    }
    context_.driver.handle(RoomNeeded{sum.size()});
    timer.expires_after(kRoomAgain);
    co_await timer.async_wait(asio::use_awaitable);
  } while (context_.protocol().is_summing(draft) && !context_.ending.closing());
  co_return Copied{};
}

void ShardSummer::finish(const SumShard& action, Work& work) {
  const Digest draft = draft_digest(action.draft);
  inter::Spool& spool = context_.directory.spool();
  // Of a round that is over, inputs may have been let go.
  for (const inter::BlobId& blob : action.inputs)
    if (context_.protocol().is_summing(draft) && !spool.has(blob)) context_.lose(blob);
  for (const auto& [blob, damage] : work.damaged) {
    if (!spool.has(blob)) continue;
    spool.remove_damaged(blob, damage);
    context_.lose(blob);
  }
  const bool made = work.copied.blob.size_bytes > 0;
  if (!made) return context_.driver.handle(ShardNotSummed{draft, action.shard});
  for (const ShardTools::LeftOut& one : work.sum.left_out) {
    spdlog::error("{}: shard {} of what {} contributed to round {} {}; it counts as 0",
                  context_.options.region, action.shard, work.participants.at(one.place).region,
                  action.draft.round, one.why);
  }
  if (work.copied.draft) spool.finish(*work.copied.draft, work.copied.blob);
  context_.driver.handle(ShardSummed{draft, action.shard, work.copied.blob});
}

}  // namespace causeway::diloco
