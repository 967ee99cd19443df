#include "inter/door/strangers.h"

#include <algorithm>
#include <cstddef>
#include <system_error>

namespace causeway::inter {
namespace {

constexpr std::size_t kAddressesMax = 4096;  // remembered

// Whose budget it is: whoever has one IPv6 address has all of its network.
asio::ip::address owner_of(const asio::ip::address& address) {
  if (address.is_v4()) return address;
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
  asio::ip::address_v6::bytes_type network = v6.to_bytes();
  std::fill(network.begin() + 8, network.end(), 0);
  return asio::ip::address_v6(network);
}

}  // namespace

std::string network_of(const std::string& host) {
  std::error_code none;
  const asio::ip::address address = asio::ip::make_address(host, none);
  return none ? host : owner_of(address).to_string();
}

bool HandshakeBudget::take(const asio::ip::address& address, Clock::time_point now) {
  const asio::ip::address owner = owner_of(address);
  if (const auto known = expected_.find(owner); known != expected_.end())
    return known->second.take(now, limits_.expected);
  forget_rested(stranger_, limits_.stranger, now);
  // Who is refused for what others took does not remember it as its own.
  return strangers_.taken(now, limits_.strangers) + 1 <= limits_.strangers.at_once &&
         stranger_[owner].take(now, limits_.stranger) && strangers_.take(now, limits_.strangers);
}

void HandshakeBudget::expect(const asio::ip::address& address, Clock::time_point now) {
  forget_rested(expected_, limits_.expected, now);
  expected_.try_emplace(owner_of(address));
}

bool HandshakeBudget::expects(const asio::ip::address& address) const {
  return expected_.contains(owner_of(address));
}

// Those who took nothing lately: to forget them changes no budget.
void HandshakeBudget::forget_rested(Buckets& buckets, const HandshakeRate& rate,
                                    Clock::time_point now) {
  if (buckets.size() < kAddressesMax) return;
  std::erase_if(buckets, [&](const auto& one) { return one.second.taken(now, rate) == 0; });
}

}  // namespace causeway::inter
