// Network namespaces for the packet engine: one per region, with an address of the range that RFC
// 2544 reserves for benchmarks (198.18.0.0/15), and one in between that holds the other ends of
// their cables. Needs root, or a kernel that allows user namespaces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

class Namespaces {
 public:
  // Throws std::system_error saying what is missing and how to get it. One thread only: it moves
  // the process between namespaces, and leaves it where it was. Without root the process is moved
  // into a user namespace and a network of its own, for good. named: for `ip netns exec`.
  Namespaces(const Scenario& scenario, bool named);
  ~Namespaces();
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  std::string address(const std::string& region) const;
  // How another program gets into a region, as the beginning of a command line.
  std::string enter_command(const std::string& region) const;
  // In a child process only: moves it into the region.
  void enter(const std::string& region) const;
  int descriptor(const std::string& region) const;  // of the namespace, for setns()
  // Packet sockets on the cables, in the order of the scenario's regions.
  const std::vector<int>& sockets() const { return sockets_; }

 private:
  explicit Namespaces(const Scenario& scenario);  // nothing yet

  std::size_t index(const std::string& region) const;
  void become_root_of_own();
  int make_namespace();
  void add_region(std::size_t index);
  void add_neighbour(std::size_t index, std::size_t other, const LinkProfile& link);
  void open_socket(std::size_t index);
  void name(std::size_t index);

  std::vector<std::string> regions_;
  std::vector<int> namespaces_;  // of the regions
  std::vector<int> sockets_;
  std::vector<std::string> named_;
  int home_ = -1, middle_ = -1;
  bool own_user_namespace_ = false;
};

// The region of an Ethernet frame's destination or source, from 0; none of ours: -1.
int region_of_frame(const std::uint8_t* frame, std::size_t bytes);

}  // namespace causeway::wan_sim
