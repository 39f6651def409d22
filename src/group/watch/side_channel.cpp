#include "group/watch/side_channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <sstream>
#include <utility>

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds look_up{100};        // how often the server looks whether it is to stop
constexpr milliseconds request_limit{300};  // for one request to arrive whole

/// A file descriptor that is closed when it goes.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int left(Clock::time_point end) {
  const auto rest = std::chrono::duration_cast<milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(rest.count(), 0));
}

bool ready(int fd, short events, Clock::time_point end) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, left(end)) == 1;
}

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// This host's addresses that others may reach.
std::vector<std::string> own_addresses() {
  std::vector<std::string> made;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return made;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_UP) == 0U || (each->ifa_flags & IFF_LOOPBACK) != 0U) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    made.emplace_back(text.data());
  }
  ::freeifaddrs(list);
  return made;
}

/// A connection that was begun: what may still stand, and whether nobody listens there.
struct Attempt {
  Socket socket;
  bool refused = false;
};

/// Begins to connect, without waiting.
Attempt connecting(const std::string& address, int port) {
  Socket made(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return {Socket(-1), false};
  const bool begun =
      ::connect(made.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ||
      errno == EINPROGRESS;
  // A socket that failed at once looks ready to poll(), and its error is gone.
  if (!begun) return {Socket(-1), errno == ECONNREFUSED};
  return {std::move(made), false};
}

int error_of(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// A connection that stands, or -1; and whether a host said that nobody listens there.
struct Connected {
  int fd = -1;
  bool refused = false;
};

Connected connected(const std::vector<Attempt>& attempts, Clock::time_point end) {
  Connected made;
  std::vector<pollfd> waiting;
  for (const Attempt& each : attempts) {
    made.refused = made.refused || each.refused;
    if (each.socket.get() >= 0) waiting.push_back({each.socket.get(), POLLOUT, 0});
  }
  while (left(end) > 0 && !waiting.empty()) {
    if (::poll(waiting.data(), waiting.size(), left(end)) <= 0) break;
    for (const pollfd& each : waiting) {
      if (each.revents == 0) continue;
      const int error = error_of(each.fd);
      made.refused = made.refused || error == ECONNREFUSED;
      if (error == 0 && (each.revents & POLLOUT) != 0) return {each.fd, made.refused};
    }
    std::erase_if(waiting, [](const pollfd& each) { return each.revents != 0; });
  }
  return made;
}

bool sent(int fd, const std::string& text, Clock::time_point end) {
  std::size_t done = 0;
  while (done < text.size()) {
    if (!ready(fd, POLLOUT, end)) return false;
    const ssize_t part = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (part < 0 && errno != EAGAIN) return false;
    if (part > 0) done += static_cast<std::size_t>(part);
  }
  return true;
}

/// What arrives up to `stop` or the end of the connection; nothing where neither comes in time, or
/// more than `most` bytes do.
std::string received(int fd, char stop, std::size_t most, Clock::time_point end) {
  std::string text;
  std::array<char, 65536> part{};
  while (ready(fd, POLLIN, end)) {
    const ssize_t got = ::recv(fd, part.data(), part.size(), 0);
    if (got < 0 && errno == EAGAIN) continue;
    if (got < 0) return {};
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (std::memchr(part.data(), stop, static_cast<std::size_t>(got)) != nullptr) return text;
    if (text.size() > most) return {};
  }
  return {};
}

constexpr char end_of_answer = '\x04';
constexpr std::size_t request_bytes_max = 4096;
constexpr std::size_t answer_bytes_max = std::size_t{256} << 20;
constexpr int attempts_max = 2;

}  // namespace

SideChannel::SideChannel(Answer answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) return;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof any;
  const bool listens = ::bind(listener_, reinterpret_cast<sockaddr*>(&any), size) == 0 &&
                       ::listen(listener_, 128) == 0 &&
                       ::getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &size) == 0;
  if (!listens) return;
  port_ = ntohs(any.sin_port);
}

SideChannel::~SideChannel() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (listener_ >= 0) ::close(listener_);
}

std::string SideChannel::address() const {
  if (port_ == 0) return {};
  std::string made = fmt::format("{} {}", own_host(), port_);
  for (const std::string& each : own_addresses()) made += " " + each;
  return made;
}

void SideChannel::meet(std::vector<std::string> addresses, std::string token) {
  addresses_ = std::move(addresses);
  token_ = std::move(token);
  if (port_ != 0) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
}

void SideChannel::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!ready(listener_, POLLIN, Clock::now() + look_up)) continue;
    const Socket connection(::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.get() >= 0) answer_one(connection.get());
  }
}

void SideChannel::answer_one(int connection) {
  const Clock::time_point end = Clock::now() + request_limit;
  const std::string request = received(connection, '\n', request_bytes_max, end);
  // Whoever does not know the launch's token is a stranger, or asks another launch's rank.
  if (request.size() <= token_.size() || !request.starts_with(token_)) return;
  std::string question = request.substr(token_.size() + 1);
  if (!question.empty() && question.back() == '\n') question.pop_back();
  sent(connection, answer_(question) + end_of_answer, end);
}

Heard SideChannel::ask_one(int rank, const std::string& question, milliseconds limit) const {
  const Clock::time_point end = Clock::now() + limit;
  std::istringstream words(addresses_[rank]);
  std::string host;
  int port = 0;
  if (!(words >> host >> port)) return {};
  std::vector<std::string> addresses;
  if (host == own_host()) addresses.emplace_back("127.0.0.1");
  for (std::string address; host != own_host() && words >> address;) addresses.push_back(address);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    std::vector<Attempt> attempts;
    for (const std::string& each : addresses) attempts.push_back(connecting(each, port));
    const auto [fd, refused] = connected(attempts, end);
    if (fd < 0) return {refused ? Heard::Outcome::gone : Heard::Outcome::silent, ""};
    if (!sent(fd, token_ + " " + question + "\n", end)) continue;
    std::string text = received(fd, end_of_answer, answer_bytes_max, end);
    // Cut off in the middle: it has just gone, or was too busy to hear all of the question.
    if (text.empty() || text.back() != end_of_answer) continue;
    text.pop_back();
    return {Heard::Outcome::answered, text};
  }
  return {};
}

std::vector<Heard> SideChannel::ask(const std::vector<int>& ranks, const std::string& question,
                                    milliseconds limit) const {
  // Where no more threads can be had they are asked one after the other.
  std::vector<std::future<Heard>> asked;
  for (const int rank : ranks) {
    asked.push_back(
        std::async(std::launch::async | std::launch::deferred,
                   [this, rank, &question, limit] { return ask_one(rank, question, limit); }));
  }
  std::vector<Heard> heard;
  for (std::future<Heard>& each : asked) heard.push_back(each.get());
  return heard;
}

}  // namespace slicecheck::group
