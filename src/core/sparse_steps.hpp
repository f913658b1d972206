// Dual steps with a sparse matrix in CSR, and with rows of an identity.
#pragma once

#include "dual_step.hpp"

namespace dapd {

// Both loops run over the entries and look for the end of the row, instead of over rows and then over entries: the
// compiler would unroll the inner loop, and the processor mispredict twice per row.
template <class T, class S, class I>
struct Csr {
  const I* indptr;
  const I* indices;
  const S* values;

  // out = base + Mv in the rows start … stop − 1; base may be null. As a part of its callers it would be short of registers.
  [[gnu::noinline]] void times(const T* v, const T* base, T* out, Index start, Index stop) const {
    if (start == stop) return;
    Index i = start;
    I end = indptr[start + 1];
    T sum = 0;
    for (I k = indptr[start]; k < indptr[stop]; ++k) {
      while (k == end) {
        out[i] = (base ? base[i] : T(0)) + sum;
        sum = 0;
        end = indptr[++i + 1];
      }
      sum += static_cast<T>(values[k]) * v[indices[k]];
    }
    for (; i < stop; ++i, sum = 0) out[i] = (base ? base[i] : T(0)) + sum;
  }

  // out += Mᵀy over the rows start … stop − 1.
  void scatter(const T* y, T* out, Index start, Index stop) const {
    if (start == stop) return;
    Index i = start;
    I end = indptr[start + 1];
    T weight = y[start];
    for (I k = indptr[start]; k < indptr[stop]; ++k) {
      while (k == end) {
        end = indptr[++i + 1];
        weight = y[i];
      }
      out[indices[k]] += static_cast<T>(values[k]) * weight;
    }
  }
};

template <class T, class S, class I>
struct CsrRows {
  Csr<T, S, I> M;

  Index panel() const { return 256; }
  double before(Index row) const { return static_cast<double>(M.indptr[row]); }
  void forward(const T* v, const T* base, T* y, Index low, Index high) const { M.times(v, base, y, low, high); }
  void backward(const T* y, T* out, Index low, Index high) const { M.scatter(y, out, low, high); }
};

// Rows of an identity matrix: y = prox(base + v) from column `left` on. Bounds on x cost no matrix.
template <class T>
struct IdentityRows {
  Index left;

  Index panel() const { return 4096; }
  double before(Index row) const { return static_cast<double>(row) / 2; }
  void forward(const T* v, const T* base, T* y, Index low, Index high) const {
    for (Index i = low; i < high; ++i) y[i] = base[i] + v[left + i];
  }
  void backward(const T* y, T* out, Index low, Index high) const {
    for (Index i = low; i < high; ++i) out[left + i] += y[i];
  }
};

}  // namespace dapd
