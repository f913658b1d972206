// φ row by row, or group of rows by group: the prox that turns base + Mv into y. A loss's derivative has a place in the
// same table, since the gradient of Σ ℓ(aᵢᵀx) is a dual step with A.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "vec.hpp"

namespace dapd {

enum Code : std::uint8_t {  // the same numbers as in model/lowered.py
  KEEP,         // y = u
  CLIP,         // y = u, clipped to [lower, upper]
  SHRINK,       // y = u − clip(u, step·lower, step·upper)
  LOGISTIC,     // the derivative of log(1 + exp(−lower·u))
  HUBER,        // the derivative of √(u² + lower²)
  BALL,         // a group's projection onto the ball of radius lower
  SHRINK_BALL,  // u minus its projection onto the ball of radius step·lower
  CODES         // how many there are
};

// Units are rows, or groups of rows if `first` is given: group k has the rows first[k] … first[k + 1] − 1.
template <class T>
struct Phi {
  Index rows = 0;
  const std::int64_t* first = nullptr;
  Index groups = 0;
  const std::uint8_t* code = nullptr;  // one per unit, or one for all rows
  const T *lower = nullptr, *upper = nullptr;  // one per row (a radius stands at its group's first row), or one for all
  bool one_code = true, one_lower = true, one_upper = true;

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

template <class T>
inline T clipped(T u, T low, T high) {
  return u < low ? low : u > high ? high : u;  // NaN fails both comparisons and passes
}

template <class T>
inline T shrunk(T u, T low, T high) {
  return u > high ? u - high : u < low ? u - low : u == u ? T(0) : u;
}

template <class T>
inline T logistic_slope(T label, T u) {
  return T(-0.5) * label * (T(1) - std::tanh(T(0.5) * label * u));  // −label/(1 + exp(label·u)) without overflow
}

template <class T>
inline T huber_slope(T e, T u) {
  return u / std::sqrt(u * u + e * e);
}

template <class T>
inline T prox_row(std::uint8_t code, T u, T lower, T upper, T step) {
  switch (code) {
    case CLIP: return clipped(u, lower, upper);
    case SHRINK: return shrunk(u, step * lower, step * upper);
    case LOGISTIC: return logistic_slope(lower, u);
    case HUBER: return huber_slope(lower, u);
    default: return u;  // KEEP: other codes are refused when a table is made
  }
}

template <class T>
void prox_group(const Phi<T>& phi, T step, T* y, Index k) {
  const Index start = static_cast<Index>(phi.first[k]), stop = static_cast<Index>(phi.first[k + 1]);
  const std::uint8_t code = phi.code[k];
  if (code != BALL && code != SHRINK_BALL) {
    for (Index i = start; i < stop; ++i) y[i] = prox_row(code, y[i], phi.lower[i], phi.upper[i], step);
    return;
  }
  Vec<T> squares{};  // the compiler would add one entry after the other
  Index at = start;
  for (; at + LANES<T> <= stop; at += LANES<T>) squares += load<T>(y + at) * load<T>(y + at);
  T square = total<T>(squares);
  for (; at < stop; ++at) square += y[at] * y[at];
  const T norm = std::sqrt(square), radius = phi.lower[start];
  const T scale = code == BALL ? radius / std::max(norm, radius) : T(1) - step * radius / std::max(norm, step * radius);
  for (Index i = start; i < stop; ++i) y[i] *= scale;
}

// The prox of the units start … stop − 1, in place.
template <class T>
void prox_units(const Phi<T>& phi, T step, T* y, Index start, Index stop) {
  if (phi.first) {
    for (Index k = start; k < stop; ++k) prox_group(phi, step, y, k);
    return;
  }
  const T *lower = phi.lower, *upper = phi.upper;
  const bool one_lower = phi.one_lower, one_upper = phi.one_upper;
  if (!phi.one_code) {
    for (Index i = start; i < stop; ++i) {
      y[i] = prox_row(phi.code[i], y[i], lower[one_lower ? 0 : i], upper[one_upper ? 0 : i], step);
    }
    return;
  }
  // one code for all rows has a loop of its own, which the compiler vectorises
  switch (phi.code[0]) {
    case KEEP: return;
    case CLIP:
      if (one_lower && one_upper) {
        const T low = lower[0], high = upper[0];
        for (Index i = start; i < stop; ++i) y[i] = clipped(y[i], low, high);
      } else {
        for (Index i = start; i < stop; ++i) y[i] = clipped(y[i], lower[one_lower ? 0 : i], upper[one_upper ? 0 : i]);
      }
      return;
    case SHRINK:
      if (one_lower && one_upper) {
        const T low = step * lower[0], high = step * upper[0];
        for (Index i = start; i < stop; ++i) y[i] = shrunk(y[i], low, high);
      } else {
        for (Index i = start; i < stop; ++i) {
          y[i] = shrunk(y[i], step * lower[one_lower ? 0 : i], step * upper[one_upper ? 0 : i]);
        }
      }
      return;
    case LOGISTIC:
      for (Index i = start; i < stop; ++i) y[i] = logistic_slope(lower[one_lower ? 0 : i], y[i]);
      return;
    case HUBER:
      if (one_lower) {
        const T e = lower[0];
        for (Index i = start; i < stop; ++i) y[i] = huber_slope(e, y[i]);
      } else {
        for (Index i = start; i < stop; ++i) y[i] = huber_slope(lower[i], y[i]);
      }
      return;
    default: return;  // refused when a table is made
  }
}

}  // namespace dapd
