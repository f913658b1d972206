// Products of a stored matrix with a point, for the certificate of certificate/certify.py: Mx and Mᵀy, and |M||x| and
// |M|ᵀ|y|, the sizes of their terms before these cancel. The matrix is read once, and no |M| is kept.
#pragma once

#include <algorithm>
#include <cmath>

#include "vec.hpp"

namespace dapd {

struct Products {
  double *Mx, *row_sizes, *Mty, *column_sizes;

  void clear(Index rows, Index columns) const {
    std::fill_n(Mx, rows, 0.0), std::fill_n(row_sizes, rows, 0.0);
    std::fill_n(Mty, columns, 0.0), std::fill_n(column_sizes, columns, 0.0);
  }
  // The same of the transpose.
  Products transposed() const { return {Mty, column_sizes, Mx, row_sizes}; }
};

// A dense matrix in C order, a strip of columns at a time, whose vectors stay in the nearest cache.
template <class S>
void multiply(const S* entries, const double* x, const double* y, Index rows, Index columns, const Products& out) {
  constexpr Index STRIP = 1024;
  constexpr int WIDTH = LANES<double>;
  out.clear(rows, columns);
  for (Index first = 0; first < columns; first += STRIP) {
    const Index stop = std::min(first + STRIP, columns);
    for (Index i = 0; i < rows; ++i) {
      const S* row = entries + i * columns;
      const double y_i = y[i], size = std::abs(y_i);
      Vec<double> sums{}, sizes{};
      Index j = first;
      for (; j + WIDTH <= stop; j += WIDTH) {
        const Vec<double> M = load<double>(row + j), term = M * load<double>(x + j);
        sums += term, sizes += magnitude(term);
        store<double>(out.Mty + j, load<double>(out.Mty + j) + y_i * M);
        store<double>(out.column_sizes + j, load<double>(out.column_sizes + j) + size * magnitude(M));
      }
      double sum = total<double>(sums), all = total<double>(sizes);
      for (; j < stop; ++j) {
        const double M = row[j], term = M * x[j];
        sum += term, all += std::abs(term);
        out.Mty[j] += y_i * M, out.column_sizes[j] += size * std::abs(M);
      }
      out.Mx[i] += sum, out.row_sizes[i] += all;
    }
  }
}

// A sparse matrix, row by row.
template <class S>
void multiply(const std::int32_t* indptr, const std::int32_t* indices, const S* values, const double* x, const double* y,
              Index rows, Index columns, const Products& out) {
  out.clear(rows, columns);
  for (Index i = 0; i < rows; ++i) {
    const double y_i = y[i];
    double sum = 0, all = 0;
    for (std::int32_t k = indptr[i]; k < indptr[i + 1]; ++k) {
      const std::int32_t j = indices[k];
      const double M = values[k], term = M * x[j], pull = M * y_i;
      sum += term, all += std::abs(term);
      out.Mty[j] += pull, out.column_sizes[j] += std::abs(pull);
    }
    out.Mx[i] = sum, out.row_sizes[i] = all;
  }
}

}  // namespace dapd
