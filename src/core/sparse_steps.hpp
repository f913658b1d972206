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

  // out = base + Mv in the rows start … stop − 1; base may be null.
  void times(const T* v, const T* base, T* out, Index start, Index stop) const {
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
class CsrRows final : public RowMap<T> {
 public:
  CsrRows(Csr<T, S, I> M, Index rows, Index first_row) : RowMap<T>({first_row, first_row + rows}), M_(M) {}
  Ends share(const Phi<T>& phi, int threads) const override {
    return even_rows(phi, this->rows, threads, [this](Index i) {
      return static_cast<double>(M_.indptr[i - this->rows.start]) + static_cast<double>(i);
    });
  }
  double work() const override { return 2.0 * static_cast<double>(M_.indptr[this->rows.stop - this->rows.start]); }
  void pass(const Phi<T>& phi, Range own, const Vectors<T>& x, T* out) const override {
    constexpr Index PANEL = 256;  // rows
    const Index top = this->rows.start;
    this->by_panels(
        phi, own, x, PANEL,
        [&](Index low, Index high) { M_.times(x.v, x.base + top, x.y + top, low - top, high - top); },
        [&](Index low, Index high) { M_.scatter(x.y + top, out, low - top, high - top); });
  }

 private:
  Csr<T, S, I> M_;
};

// Rows of an identity matrix: y = prox(base + v) from column `left` on. Bounds on x cost no matrix.
template <class T>
class IdentityRows final : public RowMap<T> {
 public:
  IdentityRows(Index rows, Index left, Index first_row) : RowMap<T>({first_row, first_row + rows}), left_(left) {}
  Ends share(const Phi<T>& phi, int threads) const override {
    return even_rows(phi, this->rows, threads, [](Index i) { return i; });
  }
  double work() const override { return static_cast<double>(this->rows.stop - this->rows.start); }
  void pass(const Phi<T>& phi, Range own, const Vectors<T>& x, T* out) const override {
    constexpr Index PANEL = 4096;                  // rows that stay in the nearest cache
    const Index right = left_ - this->rows.start;  // from a row to its column
    this->by_panels(
        phi, own, x, PANEL,
        [&](Index low, Index high) {
          for (Index i = low; i < high; ++i) x.y[i] = x.base[i] + x.v[i + right];
        },
        [&](Index low, Index high) {
          for (Index i = low; i < high; ++i) out[i + right] += x.y[i];
        });
  }

 private:
  Index left_;
};

}  // namespace dapd
