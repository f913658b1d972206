// Dual steps with a sparse matrix: CSR in panels of rows, or tiles if its entries are scattered.
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
    const Index top = this->rows.start, stop = phi.unit_at(own.stop);
    for (Index a = phi.unit_at(own.start); a < stop;) {
      const Index b = phi.panel_end(a, stop, PANEL), low = phi.row_of(a) - top, high = phi.row_of(b) - top;
      M_.times(x.v, x.base + top, x.y + top, low, high);
      prox_units(phi, x.step, x.y, a, b);
      M_.scatter(x.y + top, out, low, high);
      a = b;
    }
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
    const Index right = left_ - this->rows.start;  // from a row to its column
    for (Index i = own.start; i < own.stop; ++i) x.y[i] = x.base[i] + x.v[i + right];
    prox_units(phi, x.step, x.y, phi.unit_at(own.start), phi.unit_at(own.stop));
    for (Index i = own.start; i < own.stop; ++i) out[i + right] += x.y[i];
  }

 private:
  Index left_;
};

// A sparse matrix cut into tiles, whose part of x and part of y stay near: two passes over M. If the entries of a row
// are far apart, CSR spends its time waiting for x. A tile's entries have 16-bit places, so tiles take no more memory
// than a stored transpose would.
template <class T, class S>
class Tiles final : public DualStep<T> {
 public:
  static constexpr Index SIDE = 1 << 15;  // rows and columns of a tile at most: so many numbers stay near

  template <class I>
  Tiles(Phi<T> phi, Csr<T, S, I> M, Index columns)
      : DualStep<T>(phi, columns),
        top_(tops(phi)),
        left_(lefts(columns)),
        down_(static_cast<Index>(top_.size()) - 1),
        across_(static_cast<Index>(left_.size()) - 1),
        start_(down_ * (across_ + 1) + 1, 0) {
    const Index entries = static_cast<Index>(M.indptr[phi.rows]);
    values_ = Buffer<S>(entries);
    row_ = Buffer<std::uint16_t>(entries);
    column_ = Buffer<std::uint16_t>(entries);
    const Index width = left_[1];
    std::vector<Index> at(across_);
    Index total = 0;
    for (Index p = 0; p < down_; ++p) {
      std::fill(at.begin(), at.end(), 0);
      for (I k = M.indptr[top_[p]]; k < M.indptr[top_[p + 1]]; ++k) ++at[static_cast<Index>(M.indices[k]) / width];
      for (Index q = 0; q < across_; ++q) {
        start_[p * (across_ + 1) + q] = total;
        total += at[q];
        at[q] = start_[p * (across_ + 1) + q];
      }
      start_[p * (across_ + 1) + across_] = total;
      for (Index i = top_[p]; i < top_[p + 1]; ++i) {
        for (I k = M.indptr[i]; k < M.indptr[i + 1]; ++k) {
          const Index q = static_cast<Index>(M.indices[k]) / width, to = at[q]++;
          values_.data()[to] = M.values[k];
          row_.data()[to] = static_cast<std::uint16_t>(i - top_[p]);
          column_.data()[to] = static_cast<std::uint16_t>(static_cast<Index>(M.indices[k]) - left_[q]);
        }
      }
    }
  }

  void share(int threads, const Ends*) override {
    this->threads = threads;
    down_ends_ = cut(threads, down_, [this](Index p) { return start_[p * (across_ + 1) + across_] - start_[p * (across_ + 1)]; });
    across_ends_ = cut(threads, across_, [this](Index q) {
      Index sum = 0;
      for (Index p = 0; p < down_; ++p) sum += start_[p * (across_ + 1) + q + 1] - start_[p * (across_ + 1) + q];
      return sum;
    });
    Ends rows(threads + 1), columns(threads + 1);
    for (int t = 0; t <= threads; ++t) rows[t] = top_[down_ends_[t]], columns[t] = left_[across_ends_[t]];
    this->column_ends = columns;
    this->set_rows(rows);
  }
  int phases() const override { return 2; }
  bool reads_all_v() const override { return this->threads > 1; }
  bool reads_all_y() const override { return this->threads > 1; }
  double work() const override { return 2.0 * static_cast<double>(values_.size()); }

  void run(int phase, int rank, const Vectors<T>& x) override {
    if (phase == 0) {
      forward(rank, x);
      const Range own = this->row_ranges[rank][0];
      prox_units(this->phi, x.step, x.y, this->phi.unit_at(own.start), this->phi.unit_at(own.stop));
    } else {
      backward(rank, x);
    }
  }

 private:
  static Ends tops(const Phi<T>& phi) {
    // as few tiles as there may be, of about the same height, cut between units
    const Index count = std::max<Index>(8, (phi.rows + SIDE - 1) / SIDE);
    Ends ends{0};
    for (Index k = 1, units = phi.units(), unit = 0; k <= count; ++k) {
      const Index goal = k == count ? phi.rows : phi.rows * k / count;
      while (unit < units && phi.row_of(unit) < goal) ++unit;
      const Index row = unit < units ? phi.row_of(unit) : phi.rows;
      if (row > ends.back()) ends.push_back(row);
    }
    return ends;
  }
  static Ends lefts(Index columns) {
    const Index count = std::max<Index>(std::min<Index>(8, columns), (columns + SIDE - 1) / SIDE);
    const Index width = (columns + count - 1) / count;
    Ends ends{0};
    while (ends.back() < columns) ends.push_back(std::min(columns, ends.back() + width));
    return ends;
  }
  template <class Weight>
  static Ends cut(int threads, Index count, Weight weight) {
    Ends before(count + 1, 0), ends(threads + 1, 0);
    for (Index k = 0; k < count; ++k) before[k + 1] = before[k] + weight(k);
    for (int t = 1; t < threads; ++t) {
      const Index goal = before[count] / threads * t;
      ends[t] = std::lower_bound(before.begin(), before.end(), goal) - before.begin();
    }
    ends[threads] = count;
    return ends;
  }
  void forward(int rank, const Vectors<T>& x) {
    const S* values = values_.data();
    const std::uint16_t *row = row_.data(), *column = column_.data();
    const Range own = this->row_ranges[rank][0];
    std::copy(x.base + own.start, x.base + own.stop, x.y + own.start);
    for (Index q = 0; q < across_; ++q) {
      const T* part = x.v + left_[q];
      // in order, which is faster than as the entries have it
      for (Index j = 0; j < left_[q + 1] - left_[q]; j += 64 / static_cast<Index>(sizeof(T))) __builtin_prefetch(part + j);
      for (Index p = down_ends_[rank]; p < down_ends_[rank + 1]; ++p) {
        T* out = x.y + top_[p];
        const Index* at = &start_[p * (across_ + 1) + q];
        for (Index k = at[0]; k < at[1]; ++k) out[row[k]] += static_cast<T>(values[k]) * part[column[k]];
      }
    }
  }
  void backward(int rank, const Vectors<T>& x) {
    const S* values = values_.data();
    const std::uint16_t *row = row_.data(), *column = column_.data();
    const Range own = this->own_columns(rank);
    std::fill(x.out + own.start, x.out + own.stop, T(0));
    for (Index q = across_ends_[rank]; q < across_ends_[rank + 1]; ++q) {
      T* out = x.out + left_[q];
      for (Index p = 0; p < down_; ++p) {
        const T* part = x.y + top_[p];
        const Index* at = &start_[p * (across_ + 1) + q];
        for (Index k = at[0]; k < at[1]; ++k) out[column[k]] += static_cast<T>(values[k]) * part[row[k]];
      }
    }
  }

  Ends top_, left_;  // first rows of the tiles (p, ·) and first columns of the tiles (·, q), and the ends
  Index down_, across_;
  std::vector<Index> start_;  // tile (p, q) has the entries start[p, q] … start[p, q + 1] − 1, row by row
  Buffer<S> values_;
  Buffer<std::uint16_t> row_, column_;  // within the tile
  Ends down_ends_, across_ends_;
};

}  // namespace dapd
