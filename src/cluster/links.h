// The matrix of pairs: what each rank sends each other rank arrives byte for byte, and how fast.
// Every byte sent is computed from seed, sender and receiver, so that a pair that gets another
// pair's bytes is seen. A link is slow only by another link of its class, measured again while all
// others rest: what shares a cable or a processor for a moment is not slow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/said.h"
#include "group/group.h"

namespace slicecheck::cluster {

/// What the two ranks of a pair, the lower first, have seen of each other.
struct Link {
  int low = 0;
  int high = 0;
  std::int64_t differing = 0;  // bytes of both ways
  std::int64_t first = -1;     // the first of them, in the block of the lower that saw any
  double seconds = 0;          // median, of the slower rank; both ways at once
  double alone_seconds = 0;    // at the best, while the others rested; 0: not measured
  std::int64_t moved = 0;      // bytes of both ways, those sent alone too
};

struct LinkOptions {
  std::string name;        // of the matrix: "host" or "devices"
  std::int64_t bytes = 0;  // that each sends the other at once
  int times = 1;           // that it does so
  std::uint64_t seed = 1;
  std::vector<std::string> hosts;  // by rank
  bool within_hosts = false;       // whether links within a host are held against each other too
  double noise_seconds = 0.005;    // that a link may take longer for no fault of its own
};

/// All pairs of `group`, lowest first. Collective.
/// Refuses when: memory for five blocks is out.
std::vector<Link> links(group::Group& group, const LinkOptions& options);

/// What all ranks of `group` send all others at once, in blocks of one byte, of an odd number and
/// of what the whole of `options.bytes` gives each: per pair the bytes that differ, and each rank
/// whose own block does as a pair with itself. Collective. Refuses when: memory for two times
/// `options.bytes` and one block is out.
std::vector<Link> exchange(group::Group& group, const LinkOptions& options);

/// NAME.exchange of these pairs (transport-corruption).
Said of_exchange(const std::vector<Link>& pairs, const LinkOptions& options);

/// NAME.bytes and NAME.links of these links: changed bytes (transport-corruption) and links that
/// have less than a quarter of the fastest link's rate of their class, alone and at their best, and
/// take longer by more than noise (slow-link; within a host a warning, since GPUs may be joined in
/// more ways than one). Named is the rank that all bad links share, or the ranks of the host.
std::vector<Said> of_links(const std::vector<Link>& links, const LinkOptions& options);

/// Row `rank` of the matrix: GB/s to each rank, "-" for itself.
std::string row_of(const std::vector<Link>& links, const LinkOptions& options, int rank);

}  // namespace slicecheck::cluster
