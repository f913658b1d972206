// φ row by row, or group of rows by group: the prox that turns base + Mv into y. The derivative of a loss may stand in its
// place, since the gradient of Σ ℓ(aᵢᵀx) is a dual step with A.
#pragma once

#include <algorithm>

#include "loss.hpp"
#include "vec.hpp"

namespace dapd {

enum Kind : std::uint8_t {  // the same numbers as in kinds/native.py
  KEEP,         // y = u
  CLIP,         // y = u, clipped to [lower, upper]
  SHRINK,       // y = u − clip(u, step·lower, step·upper)
  BALL,         // a group's projection onto the ball of radius lower
  SHRINK_BALL,  // u minus its projection onto the ball of radius step·lower
  CALLED,       // y = u, from which Python computes y
  KINDS         // how many there are
};

// Units are rows, or groups of rows if `first` is given: group k has the rows first[k] … first[k + 1] − 1.
template <class T>
struct Phi {
  Index rows = 0;
  const std::int64_t* first = nullptr;
  Index groups = 0;
  const Kind* kind = nullptr;  // one per unit, or one for all rows
  const T *lower = nullptr, *upper = nullptr;  // one per row (a radius stands at its group's first row), or one for all
  bool one_kind = true, one_lower = true, one_upper = true;
  Slope<T> slope;  // instead of a prox, if it has a loss

  Index units() const { return first ? groups : rows; }
  Index row_of(Index unit) const { return first ? static_cast<Index>(first[unit]) : unit; }
  // The first unit that begins at this row or later.
  Index unit_at(Index row) const { return first ? std::lower_bound(first, first + groups, row) - first : row; }
  // Where a panel that begins with unit `start` ends: `height` rows at most, one unit at least.
  Index panel_end(Index start, Index stop, Index height) const {
    if (!first) return std::min(start + height, stop);
    Index end = start + 1;
    while (end < stop && first[end + 1] - first[start] <= height) ++end;
    return end;
  }
};

// Of a number, or of a vector of them.
template <class T>
inline T clipped(T u, T low, T high) {
  return u < low ? low : (u > high ? high : u);  // NaN fails both comparisons and passes
}

template <class T>
inline T shrunk(T u, T low, T high) {
  return u > high ? u - high : (u < low ? u - low : (u == u ? T{} : u));
}

// Rows that are of no group: KEEP and CALLED leave u.
template <class T>
inline T prox_row(Kind kind, T u, T lower, T upper, T step) {
  if (kind == CLIP) return clipped(u, lower, upper);
  return kind == SHRINK ? shrunk(u, step * lower, step * upper) : u;
}

// CLIP or SHRINK in rows with bounds of their own, or with one for all.
template <Kind kind, bool one_lower, bool one_upper, class T>
void prox_between(const T* lower, const T* upper, T step, T* y, Index start, Index stop) {
  entry_by_entry(y, start, stop, [&](auto at) {
    const auto u = at(y);
    using Entries = std::remove_cv_t<decltype(u)>;
    Entries low, high;
    if constexpr (one_lower) low = Entries{} + lower[0]; else low = at(lower);
    if constexpr (one_upper) high = Entries{} + upper[0]; else high = at(upper);
    if constexpr (kind == CLIP) return clipped(u, low, high);
    if constexpr (kind == SHRINK) return shrunk(u, low * step, high * step);
  });
}

template <Kind kind, class T>
void prox_between(const Phi<T>& phi, T step, T* y, Index start, Index stop) {
  const T *lower = phi.lower, *upper = phi.upper;
  if (phi.one_lower) {
    phi.one_upper ? prox_between<kind, true, true>(lower, upper, step, y, start, stop)
                  : prox_between<kind, true, false>(lower, upper, step, y, start, stop);
  } else {
    phi.one_upper ? prox_between<kind, false, true>(lower, upper, step, y, start, stop)
                  : prox_between<kind, false, false>(lower, upper, step, y, start, stop);
  }
}

// The same for rows of one kind.
template <class T>
void prox_rows(const Phi<T>& phi, Kind kind, T step, T* y, Index start, Index stop) {
  if (kind == CLIP) prox_between<CLIP>(phi, step, y, start, stop);
  if (kind == SHRINK) prox_between<SHRINK>(phi, step, y, start, stop);
}

template <class T>
void prox_group(const Phi<T>& phi, T step, T* y, Index k) {
  const Index start = static_cast<Index>(phi.first[k]), stop = static_cast<Index>(phi.first[k + 1]);
  const Kind kind = phi.kind[k];
  if (kind != BALL && kind != SHRINK_BALL) return prox_rows(phi, kind, step, y, start, stop);
  Vec<T> squares{};  // the compiler would add one entry after the other
  Index at = start;
  for (; at + LANES<T> <= stop; at += LANES<T>) squares += load<T>(y + at) * load<T>(y + at);
  T square = total<T>(squares);
  for (; at < stop; ++at) square += y[at] * y[at];
  const T norm = std::sqrt(square), radius = phi.lower[start];
  const T scale = kind == BALL ? radius / std::max(norm, radius) : T(1) - step * radius / std::max(norm, step * radius);
  for (Index i = start; i < stop; ++i) y[i] *= scale;
}

// The end of the rows from `start` on that are of the same kind.
inline Index same_kind(const Kind* kind, Index start, Index stop) {
  constexpr Index WORD = 8;
  const std::uint64_t all = 0x0101010101010101u * kind[start];
  Index end = start + 1;
  for (std::uint64_t word; end + WORD <= stop; end += WORD) {
    std::memcpy(&word, kind + end, sizeof word);
    if (word != all) break;
  }
  while (end < stop && kind[end] == kind[start]) ++end;
  return end;
}

// The prox of the units start … stop − 1, in place.
template <class T>
void prox_units(const Phi<T>& phi, T step, T* y, Index start, Index stop) {
  if (phi.slope.loss != Loss::NONE) {
    phi.slope(y, start, stop);
  } else if (phi.first) {
    for (Index k = start; k < stop; ++k) prox_group(phi, step, y, k);
  } else if (phi.one_kind) {
    prox_rows(phi, phi.kind[0], step, y, start, stop);
  } else {
    for (Index i = start, end; i < stop; i = end) {
      end = same_kind(phi.kind, i, stop);
      if (end > i + 1) {
        prox_rows(phi, phi.kind[i], step, y, i, end);
      } else {  // often, and then without a loop
        y[i] = prox_row(phi.kind[i], y[i], phi.lower[phi.one_lower ? 0 : i], phi.upper[phi.one_upper ? 0 : i], step);
      }
    }
  }
}

}  // namespace dapd
