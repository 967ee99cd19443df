#include "wan-sim/packet/namespaces.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <net/ethernet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

constexpr char kPrefix[] = "causeway-";
constexpr char kNamedDirectory[] = "/run/netns/";
constexpr int kBufferBytes = 16 << 20;

[[noreturn]] void fail(const std::string& what, const std::string& remedy, int error = errno) {
  throw std::system_error(error, std::generic_category(), "packet engine: " + what + "; " + remedy);
}

std::string mac_of(std::size_t index) {
  return fmt::format("02:00:c6:12:00:{:02x}", index + 1);
}

std::string address_of(std::size_t index) {
  return fmt::format("198.18.0.{}", index + 1);
}

std::string path_of(const std::string& region) {
  return kNamedDirectory + (kPrefix + region);
}

void set_namespace(int fd) {
  if (::setns(fd, CLONE_NEWNET) != 0) fail("cannot enter a network namespace", "run as root");
}

// Runs `body` in a child that entered the namespace; the child's status is the answer.
int in_child(int fd, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process", "free some memory or processes");
  if (child == 0) {
    if (::setns(fd, CLONE_NEWNET) != 0) ::_exit(126);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

void run_ip(int fd, const std::string& arguments) {
  std::istringstream words("ip " + arguments);
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  const int status = in_child(fd, [&] {
    std::vector<char*> argv;
    for (std::string& word : list) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp("ip", argv.data());
    return 127;
  });
  if (status == 127) fail("the program ip is missing", "install iproute2", ENOENT);
  if (status != 0) fail("`ip " + arguments + "` failed", "its message says why", EPERM);
}

// With offloads on, what crosses the cable are not packets: 64 KiB at a time, without checksums.
bool switch_off_offloads(const char* interface) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  bool done = socket >= 0;
  for (const unsigned command :
       {ETHTOOL_STXCSUM, ETHTOOL_SRXCSUM, ETHTOOL_SSG, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO}) {
    ethtool_value value{command, 0};
    ifreq request{};
    std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    const bool refused = ::ioctl(socket, SIOCETHTOOL, &request) != 0;
    // A kernel that has no such switch for this interface has nothing to switch off.
    if (refused && errno != EOPNOTSUPP) done = false;
  }
  if (socket >= 0) ::close(socket);
  return done;
}

void remove_name(const std::string& path) {
  ::umount2(path.c_str(), MNT_DETACH);
  ::unlink(path.c_str());
}

bool write_text(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  stream << text << std::flush;
  return static_cast<bool>(stream);
}

}  // namespace

Namespaces::Namespaces(const Scenario& scenario) : regions_(scenario.regions) {}

// Whatever is thrown from here on, the destructor takes back what was made: the other constructor
// is done.
Namespaces::Namespaces(const Scenario& scenario, bool named) : Namespaces(scenario) {
  if (::geteuid() != 0) become_root_of_own();
  home_ = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (home_ < 0) fail("cannot open /proc/self/ns/net", "mount /proc");
  if (own_user_namespace_) run_ip(home_, "link set lo up");
  middle_ = make_namespace();
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    namespaces_.push_back(make_namespace());
    add_region(i);
    for (std::size_t other = 0; other < regions_.size(); ++other) {
      if (other != i) add_neighbour(i, other, scenario.links.at({regions_[i], regions_[other]}));
    }
    open_socket(i);
    if (named && !own_user_namespace_) name(i);
  }
}

Namespaces::~Namespaces() {
  for (const std::string& path : named_) remove_name(path);
  for (const int fd : sockets_) ::close(fd);
  for (const int fd : namespaces_) ::close(fd);
  if (middle_ >= 0) ::close(middle_);
  if (home_ >= 0) ::close(home_);
}

void Namespaces::become_root_of_own() {
  const auto user = ::geteuid();
  const auto group = ::getegid();
  // Its home is new too: nobody may return to a network that another user namespace owns.
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    fail("needs root, or user namespaces, which this kernel does not allow here",
         "run as root, or ask for: sysctl kernel.unprivileged_userns_clone=1 and "
         "user.max_user_namespaces above 0 (Ubuntu: "
         "kernel.apparmor_restrict_unprivileged_userns=0)");
  }
  own_user_namespace_ = true;
  write_text("/proc/self/setgroups", "deny");
  if (!write_text("/proc/self/uid_map", fmt::format("0 {} 1", user)) ||
      !write_text("/proc/self/gid_map", fmt::format("0 {} 1", group))) {
    fail("cannot map users into the user namespace", "run as root");
  }
}

int Namespaces::make_namespace() {
  if (::unshare(CLONE_NEWNET) != 0) {
    fail("cannot make a network namespace", "run as root, or in a container with CAP_SYS_ADMIN");
  }
  const int fd = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  set_namespace(home_);
  return fd;
}

void Namespaces::add_region(std::size_t index) {
  const int region = namespaces_[index];
  const std::string near = fmt::format("cable{}", index);
  run_ip(middle_, fmt::format("link add {} type veth peer name wan0 netns /proc/{}/fd/{}", near,
                              ::getpid(), region));
  run_ip(middle_, "link set " + near + " up");
  run_ip(region, "link set lo up");
  run_ip(region, "link set wan0 address " + mac_of(index));
  run_ip(region, "address add " + address_of(index) + "/15 dev wan0");
  run_ip(region, "link set wan0 up");
  if (in_child(region, [] { return switch_off_offloads("wan0") ? 0 : 1; }) != 0 ||
      in_child(middle_, [&] { return switch_off_offloads(near.c_str()) ? 0 : 1; }) != 0) {
    fail("cannot switch off the offloads of a virtual cable", "run as root", EPERM);
  }
}

void Namespaces::add_neighbour(std::size_t index, std::size_t other, const LinkProfile& link) {
  const int region = namespaces_[index];
  run_ip(region, "neighbour replace " + address_of(other) + " lladdr " + mac_of(other) +
                     " nud permanent dev wan0");
  if (link.congestion == Congestion::none) return;
  // By route: a namespace may not have every algorithm as its default, and each link has its own.
  const std::string kind(kCongestions[static_cast<std::size_t>(link.congestion)]);
  run_ip(region, "route replace " + address_of(other) + "/32 dev wan0 congctl " + kind);
}

void Namespaces::open_socket(std::size_t index) {
  set_namespace(middle_);
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP));
  const std::string interface = fmt::format("cable{}", index);
  const unsigned place = ::if_nametoindex(interface.c_str());
  set_namespace(home_);
  if (socket < 0) fail("cannot open a packet socket", "run as root, or with CAP_NET_RAW");
  sockets_.push_back(socket);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_IP);
  address.sll_ifindex = static_cast<int>(place);
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail("cannot bind a packet socket", "run as root");
  }
  const int yes = 1;
  ::setsockopt(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
  // Beyond the system's limit where that is allowed.
  for (const int option : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    ::setsockopt(socket, SOL_SOCKET, option, &kBufferBytes, sizeof kBufferBytes);
  }
}

// So that `ip netns exec` knows it. A name whose WAN was killed is taken over: a WAN holds a lock
// on each of its namespaces as long as it lives.
void Namespaces::name(std::size_t index) {
  const std::string path = path_of(regions_[index]);
  std::error_code ignored;
  std::filesystem::create_directories(kNamedDirectory, ignored);
  const int left_over = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (left_over >= 0) {
    const bool held = ::flock(left_over, LOCK_EX | LOCK_NB) != 0;
    ::close(left_over);
    if (held) fail("cannot name a namespace " + path, "another WAN runs: stop it", EEXIST);
    remove_name(path);
  }
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (file < 0) fail("cannot name a namespace " + path, "run as root");
  ::close(file);
  named_.push_back(path);
  ::flock(namespaces_[index], LOCK_EX | LOCK_NB);
  const std::string source = fmt::format("/proc/self/fd/{}", namespaces_[index]);
  if (::mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    fail("cannot mount " + path, "run as root");
  }
}

std::size_t Namespaces::index(const std::string& region) const {
  const auto found = std::find(regions_.begin(), regions_.end(), region);
  if (found == regions_.end()) {
    throw std::system_error(Errc::bad_scenario, "no region '" + region + "'");
  }
  return static_cast<std::size_t>(found - regions_.begin());
}

std::string Namespaces::address(const std::string& region) const {
  return address_of(index(region));
}

std::string Namespaces::enter_command(const std::string& region) const {
  if (!named_.empty()) return "ip netns exec " + (kPrefix + region);
  const std::string process = fmt::format("/proc/{}", ::getpid());
  const std::string net = fmt::format("--net={}/fd/{}", process, namespaces_[index(region)]);
  if (!own_user_namespace_) return "nsenter " + net;
  return fmt::format("nsenter --preserve-credentials --user={}/ns/user {}", process, net);
}

void Namespaces::enter(const std::string& region) const {
  set_namespace(descriptor(region));
}

int Namespaces::descriptor(const std::string& region) const {
  return namespaces_[index(region)];
}

int region_of_frame(const std::uint8_t* mac, std::size_t bytes) {
  constexpr std::uint8_t kOurs[] = {0x02, 0x00, 0xc6, 0x12, 0x00};
  if (bytes < ETH_HLEN || std::memcmp(mac, kOurs, sizeof kOurs) != 0) return -1;
  return mac[sizeof kOurs] - 1;
}

}  // namespace causeway::wan_sim
