// An epoch of anchored steps: how far the plain step moves, and when that says that the epoch is over.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "vec.hpp"

namespace dapd {

// Where three registers stand: an iterate z, T of the one before, and the anchor.
template <class T>
struct Anchored {
  const T *now, *plain, *first;
};

// Scalar products of moves: d = T(z) − z of the z before the last step, and how far T(z) is from the anchor.
struct Moves {
  double of_x = 0, of_y = 0, cross = 0;  // |dx|², |dy|² and dyᵀM dx
  double moved_x = 0, moved_y = 0;           // squares too
};

// What ends an epoch. The length r of d is that in the norm of [[1/t, −Mᵀ], [−M, 1/s]]; its plain part has no M.
struct EpochRule {
  Index together = 1, seldom = 1;   // steps between two measurements, and those after which there are as many more
  double longest = 0;               // steps in all
  double per_x = 0, per_y = 0;      // 1/t and 1/s
  double rho = 1;                   // of the reflection
  double curved = 0;                // the part of 1/t that is for a linearised part of f
  double fallen_far = 0, fallen = 0;  // it ends at r ≤ fallen_far·first, and at r ≤ fallen·first if r rises
  double flat = 0, risen = 0;       // it fails at r < flat·plain part, and at r > risen·first; 0 if it cannot fail

  Index until_measured(Index number) const { return together * std::max<Index>(1, number / seldom); }
};

struct EpochProgress {
  double first = std::numeric_limits<double>::infinity(), last = first;  // r at the first measurement, and at the last
  double least = first;  // of all measurements, the plain part without what is curved, squared and divided by 2|dyᵀM dx|
  Moves moves;           // at the last
  Index next = 0;        // the step after which there is another measurement
  int end = 0;           // 1: it is over; 2: it failed
};

inline constexpr double ROUNDINGS = 64;  // of an entry up to which it did not move, as in methods/anchors.py

// Sums over entries of what `terms` gives for each, a vector of entries at a time; pieces of them in their own precision.
template <class T, std::size_t N, class Call>
std::array<double, N> sums_of(Index size, Call terms) {
  constexpr Index PIECE = 4096;
  std::array<double, N> found{};
  for (Index start = 0; start < size; start += PIECE) {
    const Index stop = std::min(start + PIECE, size);
    std::array<Vec<T>, N> lanes{};
    std::array<T, N> rest{};
    Index j = start;
    for (; j + LANES<T> <= stop; j += LANES<T>) {
      const auto some = terms([j](const T* p) { return load<T>(p + j); });
      for (std::size_t n = 0; n < N; ++n) lanes[n] += some[n];
    }
    for (; j < stop; ++j) {
      const auto one = terms([j](const T* p) { return p[j]; });
      for (std::size_t n = 0; n < N; ++n) rest[n] += one[n];
    }
    for (std::size_t n = 0; n < N; ++n) found[n] += static_cast<double>(total<T>(lanes[n]) + rest[n]);
  }
  return found;
}

// `number` is that of the next step, and `pulled` are Mᵀ of the y's.
template <class T>
Moves measure(const Anchored<T>& x, const Anchored<T>& pulled, Index columns, const Anchored<T>& y, Index rows,
              Index number, double rho) {
  const T part = static_cast<T>(1 / static_cast<double>(number)), more = 1 + part, back = static_cast<T>(1 / rho);
  // T(z) − z, from what z became: (1 + 1/k)z⁺ − z₀/k − T(z) is ρ times that
  const auto move = [=](auto at, const Anchored<T>& z) {
    return (at(z.now) * more - at(z.first) * part - at(z.plain)) * back;
  };
  const T few = static_cast<T>(ROUNDINGS) * std::numeric_limits<T>::epsilon();
  const auto moved = [=](auto at, const Anchored<T>& z) {  // squared; zero if it may be rounding
    const auto far = at(z.plain) - at(z.first), least = magnitude(at(z.plain)) * few;
    return magnitude(far) > least ? far * far : decltype(far * far){};
  };
  const auto of_columns = sums_of<T, 3>(columns, [&](auto at) {
    const auto d = move(at, x);
    return std::array{d * d, d * move(at, pulled), moved(at, x)};
  });
  const auto of_rows = sums_of<T, 2>(rows, [&](auto at) {
    const auto d = move(at, y);
    return std::array{d * d, moved(at, y)};
  });
  return {of_columns[0], of_rows[0], of_columns[1], of_columns[2], of_rows[1]};
}

// Take note of a measurement.
inline void judge(EpochProgress& made, const EpochRule& rule, const Moves& moves, bool is_longest) {
  const double plain = moves.of_x * rule.per_x + moves.of_y * rule.per_y, cross = 2 * moves.cross;
  const double square = plain - cross, r = std::sqrt(square < 0 ? 0.0 : square);  // no number if a move is none
  const bool is_first = std::isinf(made.first);
  if (is_first) made.first = r;
  made.moves = moves;
  if (cross != 0) made.least = std::min(made.least, (plain - rule.curved * moves.of_x) / std::abs(cross));
  const bool good = r >= rule.flat * std::sqrt(plain) && r <= rule.risen * made.first;  // not if r is no number
  const bool over = r <= rule.fallen_far * made.first || (r <= rule.fallen * made.first && r > made.last) || is_longest;
  made.last = r;
  made.end = rule.flat > 0 && !good ? 2 : over && !is_first ? 1 : 0;
}

}  // namespace dapd
