// Sockets of the side channel: they close themselves, and nothing on them waits without an end.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slicecheck::group {

/// A file descriptor that is closed when it goes.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// Where a process listens: an IPv4 address and a port; or, with '@' before it, a name that the
/// processes of this user find on this host, and that goes with who has it.
struct Endpoint {
  std::string address;
  int port = 0;
};

/// A socket that listens, and where.
struct Listener {
  Socket socket;
  Endpoint at;
};

/// Listens on a free port of this address of this host, or by this name; nothing where that cannot
/// be.
std::optional<Listener> listening(const std::string& address);

/// The next that has connected to it; -1 where there is none (now, or no descriptor is left).
Socket next_guest(const Listener& listener);

/// What came of connecting to one of several places at once: the first that took it (-1: none), and
/// whether one of the others said that nobody listens there.
struct Connected {
  Socket socket;
  int at = -1;
  bool refused = false;
};
Connected connected(const std::vector<Endpoint>& places, std::chrono::steady_clock::time_point end);

/// True when `fd` can be read (POLLIN) or written (POLLOUT) before `end`.
bool ready(int fd, short events, std::chrono::steady_clock::time_point end);

/// Milliseconds until `end`, for poll(); never below 0.
int left(std::chrono::steady_clock::time_point end);

/// What names this host's network, as far as one can reach it by loopback: equal for processes that
/// can, whatever the host is called.
std::string own_network();

/// This host's IPv4 addresses that are up, without loopback.
std::vector<std::string> own_addresses();

/// The address of this host that packets to `address` leave from; empty where there is no way.
std::string address_towards(const std::string& address);

}  // namespace slicecheck::group
