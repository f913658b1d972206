// The rows' part of the certificate of solving/certificate.py, in one pass, for φ that is a sum over rows.
#pragma once

#include <limits>

#include "phi.hpp"

namespace dapd {

// What is known of the rows; `entries` are Σ_j |M_ij x_j|, or |Mx| if that is unknown.
struct RowsAt {
  const double *Mx, *b, *y, *sizes, *duals, *entries;
};

// As std::max, but a NaN stays.
inline double greater(double a, double b) { return b <= a ? a : b; }

struct RowSums {
  double squares = 0;           // Σ (y − prox(y + r))²
  double feasibility = 0;       // the greatest error of a row, relative to its size
  double primal = 0, dual = 0;  // greatest distances from dom φ* and from dom φ
  double conjugate = 0, value = 0;  // φ* and φ at the nearest points there
  double product = 0, sizes = 0;    // bᵀq and Σ |b_i q_i|, q the nearest point of dom φ

  RowSums& operator+=(const RowSums& other) {
    squares += other.squares;
    feasibility = greater(feasibility, other.feasibility);
    primal = greater(primal, other.primal), dual = greater(dual, other.dual);
    conjugate += other.conjugate, value += other.value;
    product += other.product, sizes += other.sizes;
    return *this;
  }
};

// sup{uz : low ≤ u ≤ high}; infinite bounds cost nothing if z is zero.
inline double support(double z, double low, double high) { return z > 0 ? high * z : z < 0 ? low * z : 0.0; }

// z, moved to where `support` is finite.
inline double supported(double z, double low, double high) {
  constexpr double INFINITE = std::numeric_limits<double>::infinity();
  return clipped(z, low == -INFINITE ? 0.0 : -INFINITE, high == INFINITE ? 0.0 : INFINITE);
}

template <std::uint8_t code>
void add_rows(const Phi<double>& phi, const RowsAt& at, Index start, Index stop, RowSums& sums) {
  constexpr double ROUNDING = std::numeric_limits<double>::epsilon();
  for (Index i = start; i < stop; ++i) {
    const double low = phi.lower[phi.one_lower ? 0 : i], high = phi.upper[phi.one_upper ? 0 : i];
    const double r = at.Mx[i] - at.b[i], y = at.y[i], size = at.sizes[i] + at.entries[i], dual = at.duals[i] + std::abs(y);
    const double step = dual / size;
    const double fixed = prox_row(code, y + r, low, high, 1.0), p = prox_row(code, y + step * r, low, high, step);
    double near = y, image = 0.0;  // of KEEP: dom φ* is 0
    if constexpr (code == CLIP) {
      near = clipped(y, low, high);
      image = supported(r, low, high);
      sums.conjugate += support(image, low, high);
    } else if constexpr (code == SHRINK) {
      near = supported(y, low, high);
      image = clipped(r, low, high);
      sums.value += support(near, low, high);
    }
    const double away = std::abs(y - p) + ROUNDING * std::abs(y), product = at.b[i] * near;
    // a size that overflowed would hide an error: then the sum says so
    sums.squares += std::isfinite(size) ? (y - fixed) * (y - fixed) : std::numeric_limits<double>::infinity();
    sums.feasibility = greater(sums.feasibility, away / std::min(dual, step * size));
    sums.primal = greater(sums.primal, std::abs(r - image));
    sums.dual = greater(sums.dual, std::abs(y - near));
    sums.product += product;
    sums.sizes += std::abs(product);
  }
}

// Halves are added, not row to row, so rounding errors grow with the logarithm of the number of rows.
template <std::uint8_t code>
RowSums sum_rows(const Phi<double>& phi, const RowsAt& at, Index start, Index stop) {
  constexpr Index FEW = 128;
  RowSums sums;
  if (stop - start <= FEW) {
    add_rows<code>(phi, at, start, stop, sums);
    return sums;
  }
  const Index middle = start + (stop - start) / 2;
  sums = sum_rows<code>(phi, at, start, middle);
  return sums += sum_rows<code>(phi, at, middle, stop);
}

inline RowSums certify_rows(const Phi<double>& phi, const RowsAt& at) {
  RowSums sums;
  for (Index i = 0, end; i < phi.rows; i = end) {
    end = phi.one_code ? phi.rows : same_code(phi.code, i, phi.rows);
    switch (phi.code[phi.one_code ? 0 : i]) {
      case CLIP: sums += sum_rows<CLIP>(phi, at, i, end); break;
      case SHRINK: sums += sum_rows<SHRINK>(phi, at, i, end); break;
      default: sums += sum_rows<KEEP>(phi, at, i, end);
    }
  }
  return sums;
}

}  // namespace dapd
