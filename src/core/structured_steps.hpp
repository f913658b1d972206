// Dual steps with Kronecker products and block-diagonal matrices.
#pragma once

#include "dense.hpp"
#include "dual_step.hpp"

namespace dapd {

// BLAS as SciPy has it; the module sets these when it is loaded.
template <class T>
using Gemm = void (*)(char*, char*, int*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*);
template <class T>
inline Gemm<T> gemm = nullptr;

// C = op(A) op(B) (+ C if `add`), all in rows: C is p × w, the inner length q.
template <class T>
void multiply(const T* A, bool A_turned, Index A_stride, const T* B, bool B_turned, Index B_stride, T* C, Index p,
              Index q, Index w, bool add) {
  if (p == 0 || w == 0) return;
  // BLAS sees columns: Cᵀ = op(B)ᵀ op(A)ᵀ
  char of_B = B_turned ? 'T' : 'N', of_A = A_turned ? 'T' : 'N';
  int m = static_cast<int>(w), n = static_cast<int>(p), k = static_cast<int>(q);
  int ldb = static_cast<int>(B_stride), lda = static_cast<int>(A_stride), ldc = static_cast<int>(w);
  T one = 1, also = add ? 1 : 0;
  T *a = const_cast<T*>(A), *b = const_cast<T*>(B);  // BLAS in Fortran knows no const
  gemm<T>(&of_B, &of_A, &m, &n, &k, &one, b, &ldb, a, &lda, &also, C, &ldc);
}

// A ⊗ B with A p × q and B r × s, never formed; B is absent if it is the r × r identity.
template <class T>
class Kronecker final : public DualStep<T> {
 public:
  Kronecker(Phi<T> phi, const T* A, Index p, Index q, const T* B, Index r, Index s)
      : DualStep<T>(phi, q * s), A_(A), B_(B), p_(p), q_(q), r_(r), s_(s), half_(B ? p * s : 0) {}

  void share(int threads, const Ends*) override {
    this->threads = threads;
    const Ends rows = even_rows(this->phi, {0, this->rows}, threads, [](Index i) { return i; }, r_);
    this->column_ends.assign(threads + 1, this->columns);
    for (int t = 0; t < threads; ++t) this->column_ends[t] = q_ * t / threads * s_;
    this->set_rows(rows);
  }
  int phases() const override { return 2; }
  bool reads_all_v() const override { return this->threads > 1; }
  bool reads_all_y() const override { return this->threads > 1; }
  bool exchanges_scratch() const override { return B_ != nullptr; }
  double work() const override { return 2.0 * static_cast<double>(p_ * q_ * s_ + (B_ ? p_ * r_ * s_ : 0)); }

  void run(int phase, int rank, const Vectors<T>& x) override {
    if (phase == 0) {
      const Range own = this->row_ranges[rank][0];
      const Index top = own.start / r_, height = own.stop / r_ - top;
      T *y = x.y + own.start, *half = half_.data() + top * s_;
      if (x.forward) {
        std::copy(x.base + own.start, x.base + own.stop, y);
        if (B_) {
          multiply(A_ + top * q_, false, q_, x.v, false, s_, half, height, q_, s_, false);
          multiply(half, false, s_, B_, true, s_, y, height, s_, r_, true);
        } else {
          multiply(A_ + top * q_, false, q_, x.v, false, s_, y, height, q_, s_, true);
        }
        prox_units(this->phi, x.step, x.y, this->phi.unit_at(own.start), this->phi.unit_at(own.stop));
      }
      if (B_ && x.backward) multiply(y, false, r_, B_, false, s_, half, height, r_, s_, false);
      return;
    }
    if (!x.backward) return;
    const Index left = this->column_ends[rank] / s_, width = this->column_ends[rank + 1] / s_ - left;
    const T* turned = B_ ? half_.data() : x.y;
    multiply(A_ + left, true, q_, turned, false, s_, x.out + left * s_, width, p_, s_, false);
  }

 private:
  const T *A_, *B_;
  Index p_, q_, r_, s_;
  Buffer<T> half_;  // A V, then Y B
};

// diag(M_1, …, M_N), M_i dense in rows; threads have blocks of their own and need nothing of each other.
template <class T, class S>
class BlockDiagonal final : public DualStep<T> {
 public:
  // Block i is at entries[at[i]], its first row is row[i], its first column column[i].
  BlockDiagonal(Phi<T> phi, const S* entries, Ends at, Ends row, Ends column)
      : DualStep<T>(phi, column.back()),
        entries_(entries),
        at_(std::move(at)),
        row_(std::move(row)),
        column_(std::move(column)) {
    // panels: blocks whose rows φ does not tie to those of others
    const Index blocks = static_cast<Index>(row_.size()) - 1;
    for (Index i = 0; i <= blocks; ++i) {
      const Index unit = i == blocks ? phi.units() : phi.unit_at(row_[i]);
      if (i == blocks || phi.row_of(unit) == row_[i]) panels_.push_back(i), units_.push_back(unit);
    }
  }

  void share(int threads, const Ends*) override {
    this->threads = threads;
    Ends rows(threads + 1, 0);
    this->column_ends.assign(threads + 1, 0);
    panel_ends_.assign(threads + 1, 0);
    const Index count = static_cast<Index>(panels_.size()) - 1;
    for (int t = 1; t <= threads; ++t) {
      Index k = panel_ends_[t - 1];
      while (k < count && (t == threads || at_[panels_[k]] < at_.back() / threads * t)) ++k;
      panel_ends_[t] = k;
      rows[t] = row_[panels_[k]];
      this->column_ends[t] = column_[panels_[k]];
    }
    this->set_rows(rows);
  }
  double work() const override { return 2.0 * static_cast<double>(at_.back()); }

  void run(int, int rank, const Vectors<T>& x) override {
    const Range own = this->own_columns(rank);
    std::fill(x.out + own.start, x.out + own.stop, T(0));
    for (Index k = panel_ends_[rank]; k < panel_ends_[rank + 1]; ++k) {
      for (Index i = panels_[k]; i < panels_[k + 1] && x.forward; ++i) {
        const Index width = column_[i + 1] - column_[i], top = row_[i];
        dots(entries_ + at_[i], width, width, x.v + column_[i], x.base + top, x.y + top, 0, row_[i + 1] - top);
      }
      if (x.forward) prox_units(this->phi, x.step, x.y, units_[k], units_[k + 1]);
      for (Index i = panels_[k]; i < panels_[k + 1] && x.backward; ++i) {
        const Index width = column_[i + 1] - column_[i], top = row_[i];
        add(entries_ + at_[i], width, width, x.y + top, x.out + column_[i], 0, row_[i + 1] - top);
      }
    }
  }

 private:
  const S* entries_;
  Ends at_, row_, column_, panels_, units_, panel_ends_;
};

}  // namespace dapd
