#include "group/watch/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int backlog = 128;
constexpr int any_service = 9;  // a datagram socket that never sends: any port says the way

std::string text(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> made{};
  return ::inet_ntop(AF_INET, &address, made.data(), made.size()) == nullptr ? "" : made.data();
}

/// An address as the system takes it.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof bytes;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  template <typename T>
  T as() const {
    T made{};
    std::memcpy(&made, &bytes, sizeof made);
    return made;
  }
};

template <typename T>
Address written(const T& known, std::size_t size) {
  Address made;
  std::memcpy(&made.bytes, &known, size);
  made.size = static_cast<socklen_t>(size);
  return made;
}

/// A name in no file: its first byte is 0.
std::optional<Address> named(const std::string& name) {
  sockaddr_un made{};
  made.sun_family = AF_UNIX;
  if (name.size() > sizeof made.sun_path) return {};
  std::memcpy(made.sun_path + 1, name.data() + 1, name.size() - 1);
  return written(made, offsetof(sockaddr_un, sun_path) + name.size());
}

std::optional<Address> address_of(const Endpoint& place) {
  if (place.address.starts_with('@')) return named(place.address);
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(static_cast<std::uint16_t>(place.port));
  if (::inet_pton(AF_INET, place.address.c_str(), &made.sin_addr) != 1) return {};
  return written(made, sizeof made);
}

std::optional<Address> name_of(int fd) {
  Address made;
  if (::getsockname(fd, made.get(), &made.size) != 0) return {};
  return made;
}

/// Names of a host are anybody's: whoever is another user is nobody.
bool own_user(const Endpoint& place, int fd) {
  if (!place.address.starts_with('@')) return true;
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
}

Socket stream(const Address& address) {
  return Socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool done(int code) { return code == 0; }

int error_of(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// A connection that was begun: what may still stand, and whether nobody listens there.
struct Attempt {
  Socket socket;
  bool refused = false;
};

/// Begins to connect, without waiting.
Attempt connecting(const Endpoint& place) {
  const std::optional<Address> to = address_of(place);
  if (!to) return {};
  Socket made = stream(*to);
  const bool begun = done(::connect(made.get(), to->get(), to->size)) || errno == EINPROGRESS;
  // A socket that failed at once looks ready to poll(), and its error is gone.
  if (!begun) return {Socket(), errno == ECONNREFUSED};
  return {std::move(made), false};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

int left(Clock::time_point end) {
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(rest.count(), 0));
}

bool ready(int fd, short events, Clock::time_point end) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, left(end)) == 1;
}

std::optional<Listener> listening(const std::string& address) {
  const std::optional<Address> at = address_of({address, 0});
  if (!at) return {};
  Socket made = stream(*at);
  const bool listens =
      done(::bind(made.get(), at->get(), at->size)) && done(::listen(made.get(), backlog));
  const std::optional<Address> name = listens ? name_of(made.get()) : std::nullopt;
  if (!name) return {};
  const bool port = name->bytes.ss_family == AF_INET;
  return Listener{std::move(made), {address, port ? ntohs(name->as<sockaddr_in>().sin_port) : 0}};
}

Socket next_guest(const Listener& listener) {
  Socket made(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (made.get() >= 0 && !own_user(listener.at, made.get())) return {};
  return made;
}

Connected connected(const std::vector<Endpoint>& places, Clock::time_point end) {
  Connected made;
  std::vector<Attempt> attempts;
  std::vector<pollfd> waiting;
  for (const Endpoint& each : places) {
    attempts.push_back(connecting(each));
    made.refused = made.refused || attempts.back().refused;
    waiting.push_back({attempts.back().socket.get(), POLLOUT, 0});  // poll() passes over -1
  }
  const auto open = [](const pollfd& each) { return each.fd >= 0; };
  while (std::any_of(waiting.begin(), waiting.end(), open)) {
    if (::poll(waiting.data(), waiting.size(), left(end)) <= 0) break;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const int error = error_of(waiting[i].fd);
      made.refused = made.refused || error == ECONNREFUSED;
      if (error == 0 && (waiting[i].revents & POLLOUT) != 0 && own_user(places[i], waiting[i].fd)) {
        made.socket = std::move(attempts[i].socket);
        made.at = static_cast<int>(i);
        return made;
      }
      waiting[i].fd = -1;
    }
  }
  return made;
}

std::string own_network() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 256> space{};
  if (::readlink("/proc/self/ns/net", space.data(), space.size() - 1) > 0 && !boot.empty()) {
    return boot + "/" + space.data();
  }
  return ::gethostname(space.data(), space.size() - 1) == 0 ? space.data() : "unknown";
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> made;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return made;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_UP) == 0U || (each->ifa_flags & IFF_LOOPBACK) != 0U) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    made.push_back(text(address.sin_addr));
  }
  ::freeifaddrs(list);
  return made;
}

std::string address_towards(const std::string& address) {
  const std::optional<Address> to = address_of({address, any_service});
  if (!to) return {};
  const Socket asking(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!done(::connect(asking.get(), to->get(), to->size))) return {};
  const std::optional<Address> name = name_of(asking.get());
  return name ? text(name->as<sockaddr_in>().sin_addr) : std::string();
}

}  // namespace slicecheck::group
