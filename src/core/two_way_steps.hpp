// Dual steps that go by rows for Mv and by columns for Mᵀy, so no thread adds to what others add to. Parts of M stand on
// one another: tiles or sorted rows, runs of rows that move on by a column, and rows of an identity.
#pragma once

#include <stdexcept>

#include "sparse_steps.hpp"

namespace dapd {

// What the parts below are made from: a matrix whose indices have 32 bits.
template <class T, class S>
using ShortCsr = Csr<T, S, std::uint32_t>;

// Some rows of M, for both products.
template <class T>
class TwoWayRows {
 public:
  explicit TwoWayRows(Range rows) : rows(rows) {}
  virtual ~TwoWayRows() = default;
  // y = base + Mv in these rows.
  virtual void forward(const T* v, const T* base, T* y, Range own) const = 0;
  // out += Mᵀy in these columns.
  virtual void backward(const T* y, T* out, Range own) const = 0;
  virtual double before_row(Index row) const = 0;        // entries
  virtual double before_column(Index column) const = 0;  // entries, about
  // Where rows and columns may be cut, if not anywhere. Then `forward` and `backward` get all that a thread has at
  // once, else the rows or columns of one panel.
  virtual const Ends* row_cuts() const { return nullptr; }
  virtual const Ends* column_cuts() const { return nullptr; }
  virtual bool columns_by_panels() const { return !column_cuts(); }  // in spite of cuts, which panels begin at then

  static constexpr Index PANEL = 4096;  // rows or columns that stay in the nearest cache
  const Range rows;                     // within y
};

// Rows cut into this many parts of about the same height, between units of φ.
template <class T>
Ends cuts_between_units(const Phi<T>& phi, Range rows, Index count) {
  const Index height = rows.stop - rows.start;
  Ends ends{rows.start};
  for (Index k = 1, unit = phi.unit_at(rows.start), last = phi.unit_at(rows.stop); k <= count; ++k) {
    const Index goal = k == count ? rows.stop : rows.start + height * k / count;
    while (unit < last && phi.row_of(unit) < goal) ++unit;
    const Index row = unit < last ? phi.row_of(unit) : rows.stop;
    if (row > ends.back()) ends.push_back(row);
  }
  return ends;
}

// Which of the ends a row or column is.
inline Index place(const Ends& ends, Index at) { return std::lower_bound(ends.begin(), ends.end(), at) - ends.begin(); }

template <class T>
class TwoWay final : public DualStep<T> {
 public:
  TwoWay(Phi<T> phi, Index columns, std::vector<std::unique_ptr<TwoWayRows<T>>> parts)
      : DualStep<T>(phi, columns), parts_(std::move(parts)) {}

  void share(int threads, const Ends* wanted) override {
    this->set_columns(threads, wanted);
    if (!wanted) this->column_ends = cut_columns();
    this->row_ranges.assign(threads, {});
    for (const auto& part : parts_) {
      const auto before = [&](Index i) { return part->before_row(i); };
      const Ends ends = part->row_cuts() ? cut(threads, *part->row_cuts(), before)
                                         : even_rows(this->phi, part->rows, threads, before);
      for (int t = 0; t < threads; ++t) this->row_ranges[t].push_back({ends[t], ends[t + 1]});
    }
  }
  int phases() const override { return 2; }
  bool reads_all_v() const override { return this->threads > 1; }
  bool reads_all_y() const override { return this->threads > 1; }
  bool carries_rows() const override { return true; }
  bool carries_columns() const override { return true; }
  double work() const override {
    double sum = 0;
    for (const auto& part : parts_) sum += 2 * part->before_row(part->rows.stop);
    return sum;
  }

  void run(int phase, int rank, const Vectors<T>& x) override {
    if (phase == 0 && x.forward) {
      for (std::size_t k = 0; k < parts_.size(); ++k) forward(*parts_[k], this->row_ranges[rank][k], x);
    } else if (phase == 1 && x.backward) {
      backward(this->own_columns(rank), x);
    }
  }

 private:
  static constexpr Index PANEL = TwoWayRows<T>::PANEL;

  void forward(const TwoWayRows<T>& part, Range own, const Vectors<T>& x) const {
    const auto multiply = [&](Range rows) {
      if (x.before_rows) (*x.before_rows)(rows);
      part.forward(x.v, x.base, x.y, rows);
    };
    const bool at_once = part.row_cuts();
    if (at_once) multiply(own);
    const Index stop = this->phi.unit_at(own.stop);
    for (Index a = this->phi.unit_at(own.start), b; a < stop; a = b) {
      b = this->phi.panel_end(a, stop, PANEL);
      const Range panel{this->phi.row_of(a), b < stop ? this->phi.row_of(b) : own.stop};
      if (!at_once) multiply(panel);
      prox_units(this->phi, x.step, x.y, a, b);
      if (x.after_rows) (*x.after_rows)(panel);
    }
  }
  void backward(Range own, const Vectors<T>& x) const {
    bool by_panels = true;
    for (const auto& part : parts_) by_panels = by_panels && part->columns_by_panels();
    if (!by_panels) std::fill(x.out + own.start, x.out + own.stop, T(0));
    for (const auto& part : parts_) {
      if (!part->columns_by_panels()) part->backward(x.y, x.out, own);
    }
    for (Index a = own.start, b; a < own.stop; a = b) {
      b = std::min(own.stop, (a / PANEL + 1) * PANEL);
      if (by_panels) std::fill(x.out + a, x.out + b, T(0));
      for (const auto& part : parts_) {
        if (part->columns_by_panels()) part->backward(x.y, x.out, {a, b});
      }
      if (x.after_columns) (*x.after_columns)({a, b});
    }
  }

  // As many entries for each thread; `before` are those before a row or column.
  template <class Before>
  static Ends cut(int threads, const Ends& cuts, Before before) {
    Ends ends(threads + 1, cuts.front());
    for (int t = 1; t < threads; ++t) {
      const double goal = before(cuts.back()) * t / threads;
      auto at = std::lower_bound(cuts.begin(), cuts.end(), goal, [&](Index place, double g) { return before(place) < g; });
      ends[t] = at == cuts.end() ? cuts.back() : *at;
    }
    ends[threads] = cuts.back();
    return ends;
  }
  Ends cut_columns() const {
    const auto before = [this](Index column) {
      double sum = static_cast<double>(column);
      for (const auto& part : parts_) sum += part->before_column(column);
      return sum;
    };
    const Ends* known = nullptr;
    for (const auto& part : parts_) {
      if (known && part->column_cuts() && *known != *part->column_cuts()) {
        throw std::invalid_argument("parts that cut columns at different places");
      }
      if (part->column_cuts()) known = part->column_cuts();
    }
    if (known) return cut(this->threads, *known, before);
    constexpr Index line = 16;  // entries: threads do not share those
    Ends cuts{0};
    while (cuts.back() < this->columns) cuts.push_back(std::min(this->columns, cuts.back() + line));
    return cut(this->threads, cuts, before);
  }

  std::vector<std::unique_ptr<TwoWayRows<T>>> parts_;
};

template <class T>
class TwoWayIdentity final : public TwoWayRows<T> {
 public:
  TwoWayIdentity(Index rows, Index left, Index first_row)
      : TwoWayRows<T>({first_row, first_row + rows}), left_(left) {}
  void forward(const T* v, const T* base, T* y, Range own) const override {
    const Index top = this->rows.start;
    IdentityRows<T>{left_}.forward(v, base + top, y + top, own.start - top, own.stop - top);
  }
  void backward(const T* y, T* out, Range own) const override {
    const Index top = this->rows.start, height = this->rows.stop - top;
    IdentityRows<T>{left_}.backward(y + top, out, std::max<Index>(own.start - left_, 0), std::min(own.stop - left_, height));
  }
  double before_row(Index row) const override { return static_cast<double>(row - this->rows.start); }
  double before_column(Index column) const override {
    return static_cast<double>(std::clamp<Index>(column - left_, 0, this->rows.stop - this->rows.start));
  }

 private:
  Index left_;
};

}  // namespace dapd
