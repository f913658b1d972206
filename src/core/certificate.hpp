// The sums of the certificate of solving/certificate.py, over rows and over columns, each in one pass, for φ that is a
// sum over rows.
#pragma once

#include <limits>
#include <type_traits>

#include "phi.hpp"

namespace dapd {

// What is known of the rows; `entries` are Σ_j |M_ij x_j|, or |Mx| if that is unknown.
struct RowsAt {
  const double *Mx, *b, *y, *sizes, *duals, *entries;
};

// What is known of the columns: a point, ∇f there, Mᵀy, and the sizes of the data.
struct ColumnsAt {
  const double *x, *gradient, *Mty, *sizes;
};

// As std::max and std::abs, but for vectors too; a NaN in b stays, and the sums show one that was in a.
template <class E>
E greater(E a, E b) { return b <= a ? a : b; }
template <class E>
E magnitude(E v) { return v < E{} ? -v : v; }

// Sums and maxima over rows: of numbers, or lane by lane of vectors.
template <class E>
struct RowSums {
  E squares{};                  // Σ (y − prox(y + r))²
  E feasibility{};              // the greatest error of a row, relative to its size
  E primal{}, dual{};           // greatest distances from dom φ* and from dom φ
  E conjugate{}, value{};       // φ* and φ at the nearest points there
  E product{}, sizes{};         // bᵀq and Σ |b_i q_i|, q the nearest point of dom φ

  RowSums& operator+=(const RowSums& other) {
    squares += other.squares;
    feasibility = greater(feasibility, other.feasibility);
    primal = greater(primal, other.primal), dual = greater(dual, other.dual);
    conjugate += other.conjugate, value += other.value;
    product += other.product, sizes += other.sizes;
    return *this;
  }
  RowSums<double> lane(int k) const
    requires(!std::is_same_v<E, double>)
  {
    return {squares[k], feasibility[k], primal[k], dual[k], conjugate[k], value[k], product[k], sizes[k]};
  }
};

// The same over columns.
template <class E>
struct ColumnSums {
  E squares{};              // Σ (∇f + Mᵀy)²
  E greatest{}, worst{};    // of |∇f + Mᵀy|, and of the same relative to its size
  E product{}, products{};  // xᵀ∇f and Σ |x_j ∇f_j|

  ColumnSums& operator+=(const ColumnSums& other) {
    squares += other.squares;
    greatest = greater(greatest, other.greatest), worst = greater(worst, other.worst);
    product += other.product, products += other.products;
    return *this;
  }
  ColumnSums<double> lane(int k) const
    requires(!std::is_same_v<E, double>)
  {
    return {squares[k], greatest[k], worst[k], product[k], products[k]};
  }
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

template <std::uint8_t code, class E, class At>
void add_row(const Phi<double>& phi, const RowsAt& rows, At at, RowSums<E>& sums) {
  constexpr double ROUNDING = std::numeric_limits<double>::epsilon();
  const E low = phi.one_lower ? E{} + phi.lower[0] : at(phi.lower), high = phi.one_upper ? E{} + phi.upper[0] : at(phi.upper);
  const E b = at(rows.b), r = at(rows.Mx) - b, y = at(rows.y);
  const E size = at(rows.sizes) + at(rows.entries), dual = at(rows.duals) + magnitude(y), step = dual / size;
  E fixed = y + r, p = y + step * r, near = y, image{};  // of KEEP: dom φ* is 0
  if constexpr (code == CLIP) {
    fixed = clipped(fixed, low, high), p = clipped(p, low, high), near = clipped(y, low, high);
    image = supported(r, low, high);
    sums.conjugate += support(image, low, high);
  } else if constexpr (code == SHRINK) {
    fixed = shrunk(fixed, low, high), p = shrunk(p, step * low, step * high), near = supported(y, low, high);
    image = clipped(r, low, high);
    sums.value += support(near, low, high);
  }
  const E away = magnitude(y - p) + ROUNDING * magnitude(y), product = b * near, least = step * size;
  // a size that overflowed would hide an error: then the sum says so
  sums.squares += size - size == E{} ? (y - fixed) * (y - fixed) : E{} + std::numeric_limits<double>::infinity();
  sums.feasibility = greater(sums.feasibility, away / (dual < least ? dual : least));
  sums.primal = greater(sums.primal, magnitude(r - image));
  sums.dual = greater(sums.dual, magnitude(y - near));
  sums.product += product;
  sums.sizes += magnitude(product);
}

template <class E, class At>
void add_column(const ColumnsAt& columns, At at, ColumnSums<E>& sums) {
  const E gradient = at(columns.gradient), Mty = at(columns.Mty), slope = magnitude(gradient + Mty);
  const E size = at(columns.sizes) + magnitude(gradient) + magnitude(Mty), product = at(columns.x) * gradient;
  // as above
  sums.squares += size - size == E{} ? slope * slope : E{} + std::numeric_limits<double>::infinity();
  sums.greatest = greater(sums.greatest, slope);
  sums.worst = greater(sums.worst, slope / size);
  sums.product += product;
  sums.products += magnitude(product);
}

// The sums over start ≤ i < stop. Halves are added, not entry to entry, so rounding errors grow with the logarithm of
// their number.
template <template <class> class Sums, class Add>
Sums<double> summed(Index start, Index stop, const Add& add) {
  constexpr Index FEW = 128;
  if (stop - start > FEW) {
    const Index middle = start + (stop - start) / 2;
    Sums<double> sums = summed<Sums>(start, middle, add);
    return sums += summed<Sums>(middle, stop, add);
  }
  constexpr int WIDTH = LANES<double>;
  Sums<Vec<double>> together;
  Sums<double> sums;
  Index i = start;
  for (; i + WIDTH <= stop; i += WIDTH) add([i](const double* p) { return load<double>(p + i); }, together);
  for (; i < stop; ++i) add([i](const double* p) { return p[i]; }, sums);
  for (int k = 0; k < WIDTH; ++k) sums += together.lane(k);
  return sums;
}

template <std::uint8_t code>
RowSums<double> rows_of(const Phi<double>& phi, const RowsAt& rows, Index start, Index stop) {
  return summed<RowSums>(start, stop, [&](auto at, auto& sums) { add_row<code>(phi, rows, at, sums); });
}

inline RowSums<double> certify_rows(const Phi<double>& phi, const RowsAt& rows) {
  RowSums<double> sums;
  for (Index i = 0, end; i < phi.rows; i = end) {
    end = phi.one_code ? phi.rows : same_code(phi.code, i, phi.rows);
    switch (phi.code[phi.one_code ? 0 : i]) {
      case CLIP: sums += rows_of<CLIP>(phi, rows, i, end); break;
      case SHRINK: sums += rows_of<SHRINK>(phi, rows, i, end); break;
      default: sums += rows_of<KEEP>(phi, rows, i, end);
    }
  }
  return sums;
}

inline ColumnSums<double> certify_columns(const ColumnsAt& columns, Index count) {
  return summed<ColumnSums>(0, count, [&](auto at, auto& sums) { add_column(columns, at, sums); });
}

}  // namespace dapd
