#include "apps/run/follow/followed_regions.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/error.h"
#include "inter/tls/tls.h"

namespace causeway::run {
namespace {

using diloco::FollowerLink;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAgainMin{100}, kAgainMax{5'000};

}  // namespace

FollowedRegions::FollowedRegions(asio::any_io_executor executor, std::string self,
                                 inter::Credentials credentials,
                                 const std::vector<Address>& addresses)
    : executor_(executor),
      self_(std::move(self)),
      credentials_(std::move(credentials)),
      watch_(self_, credentials_),
      retry_(executor) {
  check_own_certificate(credentials_, self_, inter::Validity::required);
  context_ = inter::make_tls_context(credentials_, inter::TlsRole::client);
  know(addresses);
}

void FollowedRegions::know(const std::vector<Address>& addresses) {
  for (const Address& address : addresses) {
    if (address.endpoint.host.empty() || find(address.region) != nullptr) continue;
    places_.push_back(std::make_unique<Place>(
        Place{.address = address,
              .link = nullptr,
              .backoff = {kAgainMin, kAgainMax, std::hash<std::string>{}(self_ + address.region)},
              .refusal = {},
              .failures = {}}));
  }
}

FollowedRegions::Place* FollowedRegions::find(const std::string& region) {
  const auto found = std::ranges::find(
      places_, region, [](const auto& place) -> const auto& { return place->address.region; });
  return found == places_.end() ? nullptr : found->get();
}

std::vector<std::string> FollowedRegions::names() const {
  std::vector<std::string> names;
  for (const auto& place : places_) names.push_back(place->address.region);
  return names;
}

std::vector<std::string> FollowedRegions::in_order(const std::vector<std::string>& regions) const {
  std::vector<std::string> ordered = names();
  std::erase_if(ordered, [&regions](const std::string& name) {
    return std::ranges::find(regions, name) == regions.end();
  });
  return ordered;
}

asio::awaitable<FollowerLink*> FollowedRegions::nearest() {
  if (Place* const place = find(connected_); place != nullptr && place->link)
    co_return place->link.get();
  for (;;) {
    auto again = steady_clock::now() + kAgainMax;
    for (const std::string& name : names()) {  // whose order may change meanwhile
      Place& place = *find(name);
      FollowerLink* const link = co_await open(place);
      if (link != nullptr) {
        connected_ = name;
        spdlog::info("follows by way of {}", connected_);
        co_return link;
      }
      again = std::min(again, place.not_before);
    }
    connected_.clear();
    throw_if_most_refuse();
    std::error_code cancelled;
    retry_.expires_at(again);
    co_await retry_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

asio::awaitable<FollowerLink*> FollowedRegions::link(const std::string& region) {
  Place* const place = find(region);
  if (place == nullptr) co_return nullptr;
  co_return co_await open(*place);
}

asio::awaitable<FollowerLink*> FollowedRegions::open(Place& place) {
  if (place.link) co_return place.link.get();
  if (steady_clock::now() < place.not_before) co_return nullptr;
  watch_.reload(
      [this] { context_ = inter::make_tls_context(credentials_, inter::TlsRole::client); });
  std::string failure;
  try {
    const FollowerLink::Settings settings{.self = self_,
                                          .region = place.address.region,
                                          .address = place.address.endpoint,
                                          .context = context_,
                                          .small_segments = small_segments_};
    place.link = co_await FollowerLink::open(executor_, settings);
    place.backoff.reset();
    place.failures.reset();
    place.refusal.clear();
  } catch (const inter::LinkError& error) {
    failure = error.reason();
    // A renewal, or a clock that is set, makes dates right.
    const bool is_final =
        inter::is_refusal(error.code()) && error.code() != inter::Errc::not_valid_today;
    place.refusal = is_final ? failure : "";
  }
  if (!failure.empty()) drop(place.address.region, failure);
  co_return place.link.get();
}

asio::awaitable<bool> FollowedRegions::fetch(FollowerLink& first, inter::BlobId blob,
                                             inter::Spool& spool) {
  const std::string main = first.region();
  bool here = co_await fetch_from(first, blob, spool);
  if (here) co_return true;
  for (const std::string& region : names()) {
    if (region == main) continue;
    FollowerLink* const other = co_await link(region);
    if (other == nullptr) continue;
    std::string failure;
    try {
      here = co_await fetch_from(*other, blob, spool);
    } catch (const inter::LinkError& error) {
      failure = error.reason();
    }
    if (!failure.empty()) drop(region, failure);
    if (here) co_return true;
  }
  co_return false;
}

// False: the region does not have it, or has it damaged.
asio::awaitable<bool> FollowedRegions::fetch_from(FollowerLink& link, inter::BlobId blob,
                                                  inter::Spool& spool) {
  try {
    co_return co_await link.fetch(blob, spool);
  } catch (const std::system_error& error) {
    if (error.code() != inter::Errc::hash_mismatch) throw;
    liars_.insert(link.region());
    spdlog::error("{} sent wrong bytes for {}: another region is asked for them", link.region(),
                  inter::to_string(blob));
  }
  co_return false;
}

void FollowedRegions::drop_liars() {
  for (const std::string& liar : std::exchange(liars_, {})) drop(liar, "it sent wrong bytes");
}

void FollowedRegions::drop(const std::string& region, const std::string& why) {
  Place* const place = find(region);
  if (place == nullptr) return;
  if (place->link) received_before_ += place->link->received_bytes();
  place->link.reset();
  place->not_before = steady_clock::now() + place->backoff.next();
  const auto at = std::ranges::find(places_, place, &std::unique_ptr<Place>::get);
  std::rotate(at, at + 1, places_.end());
  if (const auto more = place->failures.note(why))
    spdlog::warn("{} at {}: {}{}", region, to_string(place->address.endpoint), why, *more);
}

void FollowedRegions::throw_if_most_refuse() const {
  const auto refuses = [](const auto& place) { return !place->refusal.empty(); };
  const auto refusals = static_cast<std::size_t>(std::ranges::count_if(places_, refuses));
  if (refusals <= places_.size() / 2) return;
  const Place& one = **std::ranges::find_if(places_, refuses);
  throw inter::LinkError(inter::Errc::refused, "most regions refuse this follower; " +
                                                   one.address.region + ": " + one.refusal);
}

std::uint64_t FollowedRegions::received_bytes() const {
  std::uint64_t bytes = received_before_;
  for (const auto& place : places_)
    if (place->link) bytes += place->link->received_bytes();
  return bytes;
}

std::string FollowedRegions::connected() const {
  return connected_;
}

}  // namespace causeway::run
