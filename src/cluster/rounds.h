// All pairs of ranks in rounds: in each round every rank meets one other, and in all rounds
// together each of the others once. Of an odd number one rests in each round. The circle method of
// tournaments: one rank stays, the others go round.
#pragma once

namespace slicecheck::cluster {

/// Rounds in which all pairs of `ranks` ranks meet: ranks - 1, or `ranks` where they are odd.
constexpr int rounds_of(int ranks) { return ranks < 2 ? 0 : ranks - 1 + ranks % 2; }

/// Whom `rank` meets in `round`; itself where it rests. partner(partner(r)) is r.
constexpr int partner(int rank, int ranks, int round) {
  const int places = ranks + ranks % 2;  // the last of an odd number's is nobody
  const int last = places - 1;
  int other = 0;
  if (rank == last) {
    // The one that would meet itself: 2 r is the round, in a circle of an odd number.
    other = round % 2 == 0 ? round / 2 : (round + last) / 2;
  } else {
    other = (round - rank + last) % last;
    if (other == rank) other = last;
  }
  return other < ranks ? other : rank;
}

static_assert(rounds_of(2) == 1 && partner(0, 2, 0) == 1 && partner(1, 2, 0) == 0);
static_assert(rounds_of(3) == 3 && partner(0, 3, 0) == 0 && partner(1, 3, 0) == 2);

}  // namespace slicecheck::cluster
