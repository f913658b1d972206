// The sums of the certificate of certificate/certify.py, over rows and over columns, each in one pass, for φ that is a
// sum over rows.
#pragma once

#include <limits>

#include "phi.hpp"

namespace dapd {

// What is known of the rows; `entries` are Σ_j |M_ij x_j|, or |Mx| if that is unknown.
struct RowsAt {
  const double *Mx, *b, *y, *sizes, *duals, *entries;
};

// What is known of the columns: a point, ∇f there, Mᵀy, Σ_i |M_ij y_i|, the sizes of the data and of ∇f(0); and, if x has
// bounds, these and the units of x.
struct ColumnsAt {
  const double *x, *gradient, *Mty, *entries, *sizes, *slopes;
  const double *lower = nullptr, *upper = nullptr, *units = nullptr;
};

// As std::max, but for vectors too; a NaN in b stays, and the sums show one that was in a.
template <class E>
E greater(E a, E b) { return b <= a ? a : b; }

// Totals and maxima, by their names: of numbers, or lane by lane of vectors.
template <class Names, class E>
struct Totals {
  E of[Names::COUNT]{};

  void add(int name, E v) { of[name] = Names::GREATEST >> name & 1 ? greater(of[name], v) : of[name] + v; }
  Totals& operator+=(const Totals& other) {
    for (int name = 0; name < Names::COUNT; ++name) add(name, other.of[name]);
    return *this;
  }
  Totals<Names, double> lane(int k) const {
    Totals<Names, double> one;
    for (int name = 0; name < Names::COUNT; ++name) one.of[name] = of[name][k];
    return one;
  }
};

struct OfRows {
  enum {
    SQUARES,          // Σ (y − prox(y + r))²
    COMPLEMENTARITY,  // the greatest error of a row, relative to its size
    ERRORS,           // Σ of the squares of these
    OUTSIDE,          // the greatest distance from dom φ* or dom φ, relative to its size
    PRIMAL, DUAL,     // greatest distances from dom φ* and from dom φ
    CONJUGATE, VALUE, // φ* and φ at the nearest points there
    PRODUCT, SIZES,   // bᵀq and Σ |b_i q_i|, q the nearest point of dom φ
    COUNT
  };
  static constexpr unsigned GREATEST = 1u << COMPLEMENTARITY | 1u << OUTSIDE | 1u << PRIMAL | 1u << DUAL;
};

struct OfColumns {
  enum {
    SQUARES,                   // Σ (∇f + Mᵀy + z)², z the multipliers of the bounds
    LARGEST, STATIONARITY,     // of |∇f + Mᵀy + z|, and of the same relative to its size
    NATURAL, COMPLEMENTARITY,  // Σ min(|z|, distance from its bound)², and the greatest of these relative to its size
    ERRORS,                    // Σ of the squares of both relative errors
    PRIMAL, OUTSIDE,           // the greatest distance from the bounds, and of the same relative to its size
    PRODUCT, SIZES,            // xᵀ∇f + (bound)ᵀz, and the sizes of its terms
    COUNT
  };
  static constexpr unsigned GREATEST =
      1u << LARGEST | 1u << STATIONARITY | 1u << COMPLEMENTARITY | 1u << PRIMAL | 1u << OUTSIDE;
};

// sup{uz : low ≤ u ≤ high}; infinite bounds cost nothing if z is zero.
template <class E>
E support(E z, E low, E high) { return z > E{} ? high * z : (z < E{} ? low * z : E{}); }

// z, moved to where `support` is finite.
template <class E>
E supported(E z, E low, E high) {
  const E infinite = E{} + std::numeric_limits<double>::infinity();
  return clipped(z, low == -infinite ? E{} : -infinite, high == infinite ? E{} : infinite);
}

template <Kind kind, class E, class At>
void add_row(const Phi<double>& phi, const RowsAt& rows, At at, Totals<OfRows, E>& sums) {
  constexpr double ROUNDING = std::numeric_limits<double>::epsilon();
  const E low = phi.one_lower ? E{} + phi.lower[0] : at(phi.lower), high = phi.one_upper ? E{} + phi.upper[0] : at(phi.upper);
  const E b = at(rows.b), r = at(rows.Mx) - b, y = at(rows.y);
  const E size = at(rows.sizes) + at(rows.entries), dual = at(rows.duals) + magnitude(y), step = dual / size;
  E fixed = y + r, p = y + step * r, near = y, image{};  // of KEEP: dom φ* is 0
  if constexpr (kind == CLIP) {
    fixed = clipped(fixed, low, high), p = clipped(p, low, high), near = clipped(y, low, high);
    image = supported(r, low, high);
    sums.add(OfRows::CONJUGATE, support(image, low, high));
  } else if constexpr (kind == SHRINK) {
    fixed = shrunk(fixed, low, high), p = shrunk(p, step * low, step * high), near = supported(y, low, high);
    image = clipped(r, low, high);
    sums.add(OfRows::VALUE, support(near, low, high));
  }
  const E product = b * near, least = step * size;
  const E away = (magnitude(y - p) + ROUNDING * magnitude(y)) / (dual < least ? dual : least);
  const E beyond = magnitude(r - image), off = magnitude(y - near);
  // a size that overflowed would hide an error: then the sum says so
  const E infinite = E{} + std::numeric_limits<double>::infinity();
  sums.add(OfRows::SQUARES, size - size == E{} ? (y - fixed) * (y - fixed) : infinite);
  sums.add(OfRows::COMPLEMENTARITY, away);
  sums.add(OfRows::ERRORS, away * away);
  sums.add(OfRows::OUTSIDE, greater(beyond / size, off / dual));
  sums.add(OfRows::PRIMAL, beyond);
  sums.add(OfRows::DUAL, off);
  sums.add(OfRows::PRODUCT, product);
  sums.add(OfRows::SIZES, magnitude(product));
}

template <bool bounded, class E, class At>
void add_column(const ColumnsAt& columns, At at, Totals<OfColumns, E>& sums) {
  const E x = at(columns.x), gradient = at(columns.gradient), slope = gradient + at(columns.Mty);
  const E size = at(columns.sizes) + magnitude(gradient) + at(columns.entries);
  E left = slope, product = x * gradient, terms = magnitude(x) * (magnitude(gradient) + at(columns.slopes));
  if constexpr (bounded) {
    const E lower = at(columns.lower), upper = at(columns.upper), unit = at(columns.units) + magnitude(x);
    const E end = slope > E{} ? lower : upper, away = magnitude(x - end);
    // z = −slope if it may be the multiplier of that bound, see multipliers_of_bounds in certificate/sums.py
    const auto takes = (slope != E{}) & (away <= magnitude(x));
    const E z = takes ? -slope : E{}, bound = takes ? end : E{}, distance = takes ? away : E{};
    left = takes ? E{} : slope;
    const E relative = magnitude(z) / size, part = distance / (unit + magnitude(bound));
    const E least = magnitude(z) < distance ? magnitude(z) : distance;
    sums.add(OfColumns::NATURAL, least * least);
    const E lesser = relative < part ? relative : part;
    sums.add(OfColumns::COMPLEMENTARITY, lesser);
    sums.add(OfColumns::ERRORS, lesser * lesser);
    const E near = clipped(x, lower, upper), beyond = magnitude(x - near);
    sums.add(OfColumns::PRIMAL, beyond);
    sums.add(OfColumns::OUTSIDE, beyond / (unit + magnitude(near)));
    product += z * bound, terms += magnitude(z) * magnitude(bound);
  }
  // as above
  sums.add(OfColumns::SQUARES, size - size == E{} ? left * left : E{} + std::numeric_limits<double>::infinity());
  sums.add(OfColumns::LARGEST, magnitude(left));
  const E error = magnitude(left) / size;
  sums.add(OfColumns::STATIONARITY, error);
  sums.add(OfColumns::ERRORS, error * error);
  sums.add(OfColumns::PRODUCT, product);
  sums.add(OfColumns::SIZES, terms);
}

// The sums over start ≤ i < stop. Halves are added, not entry to entry, so rounding errors grow with the logarithm of
// their number.
template <class Names, class Add>
Totals<Names, double> summed(Index start, Index stop, const Add& add) {
  constexpr Index FEW = 128;
  if (stop - start > FEW) {
    const Index middle = start + (stop - start) / 2;
    Totals<Names, double> sums = summed<Names>(start, middle, add);
    return sums += summed<Names>(middle, stop, add);
  }
  constexpr int WIDTH = LANES<double>;
  Totals<Names, Vec<double>> together;
  Totals<Names, double> sums;
  Index i = start;
  for (; i + WIDTH <= stop; i += WIDTH) add([i](const double* p) { return load<double>(p + i); }, together);
  for (; i < stop; ++i) add([i](const double* p) { return p[i]; }, sums);
  for (int k = 0; k < WIDTH; ++k) sums += together.lane(k);
  return sums;
}

template <Kind kind>
Totals<OfRows, double> rows_of(const Phi<double>& phi, const RowsAt& rows, Index start, Index stop) {
  return summed<OfRows>(start, stop, [&](auto at, auto& sums) { add_row<kind>(phi, rows, at, sums); });
}

// φ has rows of these kinds alone.
inline Totals<OfRows, double> certify_rows(const Phi<double>& phi, const RowsAt& rows) {
  Totals<OfRows, double> sums;
  for (Index i = 0, end; i < phi.rows; i = end) {
    end = phi.one_kind ? phi.rows : same_kind(phi.kind, i, phi.rows);
    const Kind kind = phi.kind[phi.one_kind ? 0 : i];
    if (kind == KEEP) sums += rows_of<KEEP>(phi, rows, i, end);
    if (kind == CLIP) sums += rows_of<CLIP>(phi, rows, i, end);
    if (kind == SHRINK) sums += rows_of<SHRINK>(phi, rows, i, end);
  }
  return sums;
}

inline Totals<OfColumns, double> certify_columns(const ColumnsAt& columns, Index count) {
  if (columns.lower) return summed<OfColumns>(0, count, [&](auto at, auto& sums) { add_column<true>(columns, at, sums); });
  return summed<OfColumns>(0, count, [&](auto at, auto& sums) { add_column<false>(columns, at, sums); });
}

}  // namespace dapd
