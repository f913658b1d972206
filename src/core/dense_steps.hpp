// Dual steps with a dense matrix, in rows (C order) or in columns (Fortran order: the rows of its transpose).
#pragma once

#include "dense.hpp"
#include "dual_step.hpp"

namespace dapd {

inline constexpr Index NEAR = 1 << 19;  // bytes of a panel of columns that a core's own cache keeps
inline constexpr Index READ_IN_ORDER = 128;  // entries of a column that are worth going there

template <class T, class S>
struct DenseRows {
  const S* M;
  Index columns;

  Index panel() const { return rows_apart<S>(columns) ? TALL : SHORT; }
  double before(Index row) const { return static_cast<double>(row * columns); }
  void forward(const T* v, const T* base, T* y, Index low, Index high) const {
    dots(M, columns, columns, v, base, y, low, high);
  }
  void backward(const T* y, T* out, Index low, Index high) const { add(M, columns, columns, y, out, low, high); }
};

template <class T, class S>
struct DenseColumns {
  const S* transpose;
  Index rows, columns;

  // Rows that stay near, but enough of them to be read in order, since beside other rows a wide M comes here too.
  Index panel() const { return std::max<Index>(READ_IN_ORDER, NEAR / (static_cast<Index>(sizeof(S)) * columns)); }
  double before(Index row) const { return static_cast<double>(row * columns); }
  void forward(const T* v, const T* base, T* y, Index low, Index high) const {
    std::copy(base + low, base + high, y + low);
    add(transpose + low, rows, high - low, v, y + low, 0, columns);
  }
  void backward(const T* y, T* out, Index low, Index high) const {
    dots(transpose + low, rows, high - low, y + low, out, out, 0, columns);
  }
};

// Each thread has its own columns and computes all of y from everyone's sums: y is exchanged instead of x, with one
// meeting. M is read twice, so this pays if M stays in the caches, or if its layout allows no short panels. With M in
// columns, a panel of them serves both this call's Mᵀy and the next call's Mv, if there is one: then M is read once.
template <class T, class S>
class DenseStrips final : public DualStep<T> {
 public:
  DenseStrips(Phi<T> phi, const S* M, Index columns, bool transposed)
      : DualStep<T>(phi, columns), M_(M), transposed_(transposed) {}

  void share(int threads, const Ends* wanted) override {
    this->set_columns(threads, wanted);
    this->set_rows(even_rows(this->phi, {0, this->rows}, threads, [](Index i) { return i; }));
    sums_.clear();
    whole_.clear();
    for (int t = 0; t < threads; ++t) {
      whole_.emplace_back(this->rows);
      for (int k = 0; k < 2; ++k) sums_.emplace_back(this->rows);
    }
  }
  int phases() const override { return 2; }
  bool carries_columns() const override { return transposed_; }
  bool continues() const override { return transposed_; }
  double work() const override { return 2.0 * static_cast<double>(this->rows * this->columns); }

  void run(int phase, int rank, const Vectors<T>& x) override {
    const Range own = this->own_columns(rank), mine = this->row_ranges[rank][0];
    const Index width = own.stop - own.start, rows = this->rows;
    if (phase == 0) {
      if (!x.forward) return;
      T* sum = part(rank, x.turn);
      if (!x.has_product && transposed_) {
        std::fill(sum, sum + rows, T(0));
        for (Index stop = own.stop, start; stop > own.start; stop = start) {
          start = panel_start(own, stop);
          add_columns(x.v, sum, {start, stop});
        }
      } else if (!transposed_) {
        dots<T>(M_ + own.start, this->columns, width, x.v + own.start, nullptr, sum, 0, rows);
      }
      entry_by_entry(sum, mine.start, mine.stop, [&](auto at) { return at(sum) + at(x.base); });
      return;
    }
    const T* y = x.forward ? summed(rank, x) : x.y;
    if (x.forward) std::copy(y + mine.start, y + mine.stop, x.y + mine.start);
    if (!x.backward) return;
    if (transposed_) {
      by_columns(y, own, x, part(rank, x.turn + 1));
    } else {
      std::fill(x.out + own.start, x.out + own.stop, T(0));
      add(M_ + own.start, this->columns, width, y, x.out + own.start, 0, rows);
    }
  }

 private:
  // A thread may write its next sum while others still read this one, but not the one after: they meet in between.
  T* part(int rank, unsigned turn) { return sums_[2 * rank + turn % 2].data(); }

  // All of y, from everyone's sums.
  const T* summed(int rank, const Vectors<T>& x) {
    T* y = whole_[rank].data();
    std::copy(part(0, x.turn), part(0, x.turn) + this->rows, y);
    for (int t = 1; t < this->threads; ++t) {
      const T* sum = part(t, x.turn);
      for (Index i = 0; i < this->rows; ++i) y[i] += sum[i];
    }
    prox_units(this->phi, x.step, y, 0, this->phi.units());
    return y;
  }

  // Panels are counted from the last column, so they are the same with one product and with both.
  Index panel_start(Range own, Index stop) const {
    const Index near = NEAR / (static_cast<Index>(sizeof(S)) * std::max<Index>(1, this->rows)) / TALL * TALL;
    return std::max(own.start, stop - std::max<Index>(TALL, near));
  }
  void add_columns(const T* v, T* sum, Range panel) const {
    add<Way::FORWARDS>(M_, this->rows, this->rows, v, sum, panel.start, panel.stop);
  }

  // out = Mᵀy in a thread's own columns, and its part of the next Mv if there is a next v.
  void by_columns(const T* y, Range own, const Vectors<T>& x, T* next) const {
    if (!x.next_v) {  // forwards, since `run` left the first columns near
      dots<T>(M_, this->rows, this->rows, y, nullptr, x.out, own.start, own.stop);
      if (x.after_columns) (*x.after_columns)(own);
      return;
    }
    std::fill(next, next + this->rows, T(0));
    for (Index stop = own.stop, start; stop > own.start; stop = start) {
      start = panel_start(own, stop);
      dots<T>(M_, this->rows, this->rows, y, nullptr, x.out, start, stop);
      if (x.after_columns) (*x.after_columns)({start, stop});
      add_columns(x.next_v, next, {start, stop});
    }
  }

  const S* M_;
  bool transposed_;
  std::vector<Buffer<T>> sums_, whole_;
};

}  // namespace dapd
