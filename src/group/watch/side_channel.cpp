#include "group/watch/side_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <future>
#include <random>
#include <set>
#include <sstream>

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds look_up{100};        // how often the server looks whose time is over
constexpr milliseconds hurried_look_up{1};  // where somebody waits until all is heard
constexpr milliseconds request_limit{300};  // for one question to arrive whole
constexpr milliseconds answer_limit{1000};  // for one answer to leave whole
constexpr std::size_t guests_max = 256;     // beyond it the one that has waited longest must go
constexpr std::size_t request_bytes_max = 4096;
constexpr std::size_t answer_bytes_max = std::size_t{256} << 20;
constexpr char end_of_question = '\n';
constexpr char end_of_answer = '\x04';
constexpr const char* loopback = "127.0.0.1";

std::string by_lot() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// What SideChannel::host() says.
struct Host {
  explicit Host(const std::string& text) {
    std::istringstream words(text);
    words >> network;
    for (std::string address; words >> address;) addresses.push_back(address);
  }
  std::string network;
  std::vector<std::string> addresses;
};

bool among(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// This host's addresses that lead to the ranks of other hosts. An address that is this host's too
/// leads nowhere else: every host may have it.
std::set<std::string> leading_out(const Host& own, const std::vector<std::string>& hosts) {
  std::set<std::string> tried;
  std::set<std::string> made;
  for (const std::string& each : std::set<std::string>(hosts.begin(), hosts.end())) {
    const Host other(each);
    if (other.network == own.network) continue;
    for (const std::string& address : other.addresses) {
      if (among(own.addresses, address) || !tried.insert(address).second) continue;
      const std::string from = address_towards(address);
      if (among(own.addresses, from)) made.insert(from);
    }
  }
  return made;
}

/// Of the places where a rank listens those where it can be asked from here. The others of this
/// host are asked by loopback, which no link takes down; those of other hosts where they listen for
/// them, unless that address is this host's too.
std::vector<Endpoint> usable(std::istream& places, const Host& own, bool here) {
  std::vector<Endpoint> made;
  for (Endpoint each; places >> each.address >> each.port;) {
    const bool inside = each.address == loopback;
    if (inside == here && !among(own.addresses, each.address)) made.push_back(each);
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

/// What arrives behind `word`, up to the end of the answer; nothing where it begins otherwise, does
/// not come whole in time, or is endless.
std::optional<std::string> received(int fd, const std::string& word, Clock::time_point end) {
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  while (ready(fd, POLLIN, end) && text.size() <= answer_bytes_max) {
    const ssize_t got = ::recv(fd, part.data(), part.size(), 0);
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) return {};
    text.append(part.data(), static_cast<std::size_t>(got));
    const std::size_t known = std::min(text.size(), word.size());
    if (text.compare(0, known, word, 0, known) != 0) return {};
    if (known < word.size() || text.back() != end_of_answer) continue;
    return text.substr(word.size(), text.size() - word.size() - 1);
  }
  return {};
}

}  // namespace

/// A connection that was taken: what it has said, and what it is answered.
struct SideChannel::Guest {
  Socket socket;
  Clock::time_point end;
  std::string question;
  std::string answer;
  std::size_t told = 0;  // bytes of the answer
  bool over = false;
};

SideChannel::~SideChannel() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

std::string SideChannel::host() {
  std::string made = own_network();
  for (const std::string& each : own_addresses()) made += " " + each;
  return made;
}

std::string SideChannel::listen(const std::vector<std::string>& hosts) {
  hosts_ = hosts;
  question_word_ = by_lot();
  answer_word_ = by_lot();
  std::set<std::string> addresses = leading_out(Host(host()), hosts);
  addresses.insert(loopback);
  std::string made = question_word_ + " " + answer_word_;
  for (const std::string& address : addresses) {
    std::optional<Listener> listener = listening(address);
    if (!listener) continue;
    made += fmt::format(" {} {}", listener->at.address, listener->at.port);
    listeners_.push_back(std::move(*listener));
  }
  return listeners_.empty() ? std::string() : made;
}

void SideChannel::meet(const std::vector<std::string>& places) {
  const Host own(host());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    std::istringstream words(places[rank]);
    Peer peer;
    words >> peer.question_word >> peer.answer_word;
    peer.places = usable(words, own, Host(hosts_.at(rank)).network == own.network);
    peers_.push_back(std::move(peer));
  }
  begin();
}

void SideChannel::meet_here(const std::string& launch, int rank, int ranks) {
  const auto name = [&](int of) { return fmt::format("@slicecheck/{}/{}", launch, of); };
  for (int each = 0; each < ranks; ++each) {
    peers_.push_back({name(each), name(each) + " ", {{name(each), 0}}});
  }
  question_word_ = name(rank);
  answer_word_ = name(rank) + " ";
  if (std::optional<Listener> listener = listening(name(rank))) {
    listeners_.push_back(std::move(*listener));
  }
  begin();
}

void SideChannel::begin() {
  if (listeners_.empty()) return;
  woken_ = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const std::stop_callback stopped(stop, [this] { ::eventfd_write(woken_.get(), 1); });
    serve(stop);
  });
}

void SideChannel::serve(const std::stop_token& stop) {
  std::vector<Guest> guests;
  int caught_up = 0;
  while (!stop.stop_requested()) {
    const int call = calls_;
    const bool called = call != caught_up;
    const bool heard = attend_all(guests, called ? hurried_look_up : look_up);
    if (!called || !heard) continue;
    caught_up = call;
    caught_up_with(call);
  }
}

// Whoever says nothing, too much or never ends keeps nobody else waiting: all are attended at once.
bool SideChannel::attend_all(std::vector<Guest>& guests, milliseconds limit) const {
  const auto unheard = [](const Guest& each) { return each.answer.empty(); };
  std::vector<pollfd> waiting;
  for (const Guest& each : guests) {
    waiting.push_back({each.socket.get(), static_cast<short>(unheard(each) ? POLLIN : POLLOUT), 0});
  }
  for (const Listener& each : listeners_) waiting.push_back({each.socket.get(), POLLIN, 0});
  waiting.push_back({woken_.get(), POLLIN, 0});
  ::poll(waiting.data(), waiting.size(), static_cast<int>(limit.count()));
  eventfd_t ignored = 0;
  ::eventfd_read(woken_.get(), &ignored);
  bool heard = std::all_of(waiting.begin() + std::ssize(guests), waiting.end() - 1,
                           [](const pollfd& each) { return each.revents == 0; });
  for (std::size_t i = 0; i < guests.size(); ++i) {
    if (waiting[i].revents != 0) attend(guests[i]);
  }
  const Clock::time_point now = Clock::now();
  std::erase_if(guests, [&](const Guest& each) { return each.over || now > each.end; });
  heard = heard && std::none_of(guests.begin(), guests.end(), unheard);
  admit(guests);
  return heard;
}

void SideChannel::caught_up_with(int call) {
  const std::lock_guard lock(mutex_);
  calls_caught_up_ = call;
  caught_up_.notify_all();
}

void SideChannel::catch_up(milliseconds limit) {
  if (listeners_.empty()) return;
  const int call = ++calls_;
  ::eventfd_write(woken_.get(), 1);
  std::unique_lock lock(mutex_);
  caught_up_.wait_for(lock, limit, [&] { return calls_caught_up_ >= call; });
}

void SideChannel::admit(std::vector<Guest>& guests) const {
  for (const Listener& listener : listeners_) {
    Socket socket = next_guest(listener);
    // Where no descriptor is left, none is held by a stranger for long.
    if (socket.get() < 0 && (errno == EMFILE || errno == ENFILE)) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    if (socket.get() < 0) continue;
    if (guests.size() >= guests_max) guests.erase(guests.begin());
    guests.push_back({std::move(socket), Clock::now() + request_limit, {}, {}, 0, false});
  }
}

void SideChannel::attend(Guest& guest) const {
  const int fd = guest.socket.get();
  if (!guest.answer.empty()) {
    const std::size_t rest = guest.answer.size() - guest.told;
    const ssize_t part = ::send(fd, guest.answer.data() + guest.told, rest, MSG_NOSIGNAL);
    if (part > 0) guest.told += static_cast<std::size_t>(part);
    guest.over = guest.told == guest.answer.size() || (part < 0 && errno != EAGAIN);
    return;
  }
  std::array<char, request_bytes_max> part{};
  const ssize_t got = ::recv(fd, part.data(), part.size() - guest.question.size(), 0);
  if (got < 0 && errno == EAGAIN) return;
  guest.over = got <= 0;
  if (guest.over) return;
  guest.question.append(part.data(), static_cast<std::size_t>(got));
  const std::string word = question_word_ + " ";
  const std::size_t known = std::min(guest.question.size(), word.size());
  guest.over = guest.question.compare(0, known, word, 0, known) != 0 ||
               guest.question.size() >= request_bytes_max;
  if (guest.over || guest.question.back() != end_of_question) return;
  guest.question.pop_back();
  guest.answer = answer_word_ + answer_(guest.question.substr(word.size())) + end_of_answer;
  guest.end = Clock::now() + answer_limit;
}

// Each place of the rank has its try, and one more: a connection that is cut off in the middle is
// that of a rank that has just gone, or that was too busy to hear the question whole.
Heard SideChannel::ask_one(const Peer& peer, const std::string& question,
                           milliseconds limit) const {
  const Clock::time_point end = Clock::now() + limit;
  std::vector<Endpoint> places = peer.places;
  for (std::size_t attempt = 0; attempt <= peer.places.size() && !places.empty(); ++attempt) {
    const Connected to = connected(places, end);
    if (to.at < 0) return {to.refused ? Heard::Outcome::gone : Heard::Outcome::silent, ""};
    const int fd = to.socket.get();
    std::optional<std::string> text;
    if (sent(fd, peer.question_word + " " + question + end_of_question, end)) {
      text = received(fd, peer.answer_word, end);
    }
    if (text) return {Heard::Outcome::answered, *text};
    if (places.size() > 1) places.erase(places.begin() + to.at);
  }
  return {};
}

std::vector<Heard> SideChannel::ask(const std::vector<int>& ranks, const std::string& question,
                                    milliseconds limit) const {
  // Where no more threads can be had they are asked one after the other.
  std::vector<std::future<Heard>> asked;
  for (const int rank : ranks) {
    asked.push_back(std::async(std::launch::async | std::launch::deferred,
                               [peer = &peers_.at(rank), &question, limit, this] {
                                 return ask_one(*peer, question, limit);
                               }));
  }
  std::vector<Heard> heard;
  for (std::future<Heard>& each : asked) heard.push_back(each.get());
  return heard;
}

}  // namespace slicecheck::group
