// One UDP port of the relay. The datagrams of each source are a flow, which has a socket of its own
// towards the target, so that answers find back.
//
//   source ──► port ──forward link──► socket of the flow ──► target     and the same backwards
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/ip/udp.hpp>
#include <asio/steady_timer.hpp>

#include "inter/base/retry.h"
#include "wan-sim/link/packet_link.h"
#include "wan-sim/relay/datagram_link.h"

namespace causeway::wan_sim {

struct DatagramLimits {
  Time idle = std::chrono::seconds{120};  // then a flow is forgotten: RFC 4787 asks for 2 minutes
  // Beyond them the flow that was silent for longest is forgotten: each has a descriptor.
  std::size_t flows_max = 512;
};

// One thread. Handlers of pending operations keep it alive until stop().
class DatagramPort : public std::enable_shared_from_this<DatagramPort> {
 public:
  struct Route {
    std::uint64_t key = 0;  // of the pair: with a flow's number, that of its chance
    asio::ip::udp::endpoint listen, target;
    std::shared_ptr<DatagramLink> forward, backward;
    std::function<bool()> is_refused;  // nothing passes, either way
  };
  // Throws std::system_error if it cannot listen there.
  DatagramPort(const asio::any_io_executor& executor, Route route, DatagramLimits limits = {});

  void start();
  void stop();
  asio::ip::udp::endpoint listens() const { return socket_.local_endpoint(); }

  std::size_t flows() const { return flows_.size(); }
  void forget_idle(Time now);
  void count_missed();  // what the kernel had no room for, to the links' figures

 private:
  struct Flow {
    Flow(const asio::any_io_executor& executor, asio::ip::udp::endpoint from, std::uint64_t key);
    asio::ip::udp::endpoint source;
    asio::ip::udp::socket upstream;
    PacketLink::Flow there, back;
    Time used{0};
    std::uint64_t missed = 0;
  };
  using FlowPointer = std::shared_ptr<Flow>;

  void receive();
  void on_datagram(std::size_t bytes);
  FlowPointer flow_of(const asio::ip::udp::endpoint& source);
  FlowPointer add_flow(const asio::ip::udp::endpoint& source);
  void receive_answers(const FlowPointer& flow);
  void receive_answer(const FlowPointer& flow);
  void forget(const asio::ip::udp::endpoint& source);
  void forget_in_time();

  asio::any_io_executor executor_;
  Route route_;
  DatagramLimits limits_;
  asio::ip::udp::socket socket_;
  asio::steady_timer idle_timer_;
  std::map<asio::ip::udp::endpoint, FlowPointer> flows_;
  asio::ip::udp::endpoint source_;  // of what is being received
  std::string buffer_, answer_;
  std::uint64_t missed_ = 0;
  inter::LogThrottle log_;
  bool stopped_ = false;
};

}  // namespace causeway::wan_sim
