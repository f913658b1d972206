// The prox of ½Σ hⱼxⱼ² − cᵀx between bounds, entry by entry.
#pragma once

#include <limits>

#include "dual_step.hpp"

namespace dapd {

// A vector, or one number for all entries.
template <class T>
struct Entries {
  const T* vector = nullptr;  // null: the number
  T number = 0;
};

template <class T>
struct PrimalProx {
  Entries<T> curvature, c;
  Entries<T> lower{nullptr, -std::numeric_limits<T>::infinity()}, upper{nullptr, std::numeric_limits<T>::infinity()};

  // out = the prox of v with this step; out may be v.
  void operator()(const T* v, T step, T* out, Range some) const {
    const bool one_h = !curvature.vector, no_c = !c.vector && c.number == T(0);
    const bool one_box = !lower.vector && !upper.vector;
    const auto go = [&](auto numerator, auto factor) {
      if (one_box) {
        const T low = lower.number, high = upper.number;
        entry_by_entry(out, some.start, some.stop, [&](auto at) {
          return clipped(numerator(at) * factor(at), whole(at, low), whole(at, high));
        });
      } else if (lower.vector && upper.vector) {
        entry_by_entry(out, some.start, some.stop, [&](auto at) {
          return clipped(numerator(at) * factor(at), at(lower.vector), at(upper.vector));
        });
      } else if (lower.vector) {
        const T high = upper.number;
        entry_by_entry(out, some.start, some.stop, [&](auto at) {
          return clipped(numerator(at) * factor(at), at(lower.vector), whole(at, high));
        });
      } else {
        const T low = lower.number;
        entry_by_entry(out, some.start, some.stop, [&](auto at) {
          return clipped(numerator(at) * factor(at), whole(at, low), at(upper.vector));
        });
      }
    };
    const auto with_factor = [&](auto numerator) {
      if (one_h) {
        const T scale = T(1) / (T(1) + step * curvature.number);
        go(numerator, [&](auto) { return scale; });
      } else {
        const T* h = curvature.vector;
        go(numerator, [&](auto at) { return T(1) / (T(1) + step * at(h)); });
      }
    };
    if (no_c) {
      with_factor([&](auto at) { return at(v); });
    } else if (c.vector) {
      const T* slope = c.vector;
      with_factor([&](auto at) { return at(v) + step * at(slope); });
    } else {
      const T slope = step * c.number;
      with_factor([&](auto at) { return at(v) + slope; });
    }
  }

 private:
  // The number as what `at` gives: itself, or a vector of it.
  template <class At>
  static auto whole(At at, T number) {
    using Found = decltype(at(static_cast<const T*>(nullptr)));
    if constexpr (std::is_same_v<Found, T>) {
      return number;
    } else {
      return all<T>(number);
    }
  }
  template <class E>
  static E clipped(E value, E low, E high) {
    value = value < low ? low : value;
    return value > high ? high : value;
  }
};

}  // namespace dapd
