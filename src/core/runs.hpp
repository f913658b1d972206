// Runs of rows of a sparse matrix, for differences of neighbours and other stencils.
#pragma once

#include "two_way_steps.hpp"

namespace dapd {

// Rows each of whose entries stand one column to the right of the row's before, such as differences of neighbours: no
// indices are read, and if the values do not change either, no matrix at all.
template <class T, class S>
class TwoWayRuns final : public TwoWayRows<T> {
 public:
  TwoWayRuns(ShortCsr<T, S> M, Index rows, Index columns, Index first_row)
      : TwoWayRows<T>({first_row, first_row + rows}), entries_(static_cast<double>(M.indptr[rows])) {
    const std::size_t panels = static_cast<std::size_t>(columns / PANEL + 1);
    std::vector<std::vector<Index>> of_panel(panels);
    before_panel_.assign(panels + 1, 0);
    std::vector<S> values;
    for (Index top = 0, stop; top < rows; top = stop) {
      stop = top + 1;
      while (stop < rows && moves_on(M, stop)) ++stop;
      runs_.push_back({top, static_cast<Index>(diagonals_.size())});
      const Index width = static_cast<Index>(M.indptr[top + 1] - M.indptr[top]), count = stop - top;
      for (Index d = 0; d < width; ++d) {
        const Index column = static_cast<Index>(M.indices[M.indptr[top] + d]);
        values.clear();
        for (Index i = 0; i < count; ++i) values.push_back(M.values[M.indptr[top + i] + d]);
        const bool constant = std::count(values.begin(), values.end(), values[0]) == count;
        const Index at = constant ? CONSTANT : static_cast<Index>(values_.size());
        if (!constant) values_.insert(values_.end(), values.begin(), values.end());
        for (Index p = column / PANEL; p <= (column + count - 1) / PANEL; ++p) {
          of_panel[static_cast<std::size_t>(p)].push_back(static_cast<Index>(diagonals_.size()));
          const Index within = std::min(column + count, (p + 1) * PANEL) - std::max(column, p * PANEL);
          before_panel_[static_cast<std::size_t>(p) + 1] += static_cast<double>(within);
        }
        diagonals_.push_back({top, column, count, static_cast<T>(values[0]), at});
      }
    }
    runs_.push_back({rows, static_cast<Index>(diagonals_.size())});
    for (std::size_t p = 0; p < panels; ++p) before_panel_[p + 1] += before_panel_[p];
    for (const auto& some : of_panel) {
      starts_.push_back(static_cast<Index>(listed_.size()));
      listed_.insert(listed_.end(), some.begin(), some.end());
    }
    starts_.push_back(static_cast<Index>(listed_.size()));
  }

  void forward(const T* v, const T* base, T* y, Range own) const override {
    const Index top = this->rows.start, start = own.start - top, stop = own.stop - top;
    auto run = std::upper_bound(runs_.begin(), runs_.end(), start, [](Index i, const Run& r) { return i < r.top; }) - 1;
    for (; run->top < stop; ++run) {
      const Index a = std::max(start, run->top), count = std::min(stop, (run + 1)->top) - a;
      const Index first = run->first, last = (run + 1)->first;
      const T* from = base + top + a;
      T* to = y + top + a;
      if (last - first == 2 && diagonals_[first].at == CONSTANT && diagonals_[first + 1].at == CONSTANT) {  // differences
        const Diagonal &one = diagonals_[first], &two = diagonals_[first + 1];
        const T *p = v + one.column + (a - one.row), *q = v + two.column + (a - two.row);
        entry_by_entry(to, 0, count, [&](auto at) { return at(from) + at(p) * one.value + at(q) * two.value; });
        continue;
      }
      if (first == last) std::copy(from, from + count, to);
      for (Index d = first; d < last; ++d, from = to) {
        const Index skipped = a - diagonals_[d].row;
        add(diagonals_[d], skipped, v + diagonals_[d].column + skipped, from, to, count);
      }
    }
  }
  void backward(const T* y, T* out, Range own) const override {
    const Index panel = own.start / PANEL;
    for (Index k = starts_[panel]; k < starts_[panel + 1]; ++k) {
      const Diagonal& one = diagonals_[listed_[k]];
      const Index a = std::max(own.start, one.column), b = std::min(own.stop, one.column + one.count);
      if (a < b) add(one, a - one.column, y + this->rows.start + one.row + (a - one.column), out + a, out + a, b - a);
    }
  }
  double before_row(Index row) const override {
    const Range all = this->rows;
    return entries_ * static_cast<double>(row - all.start) / static_cast<double>(std::max<Index>(1, all.stop - all.start));
  }
  double before_column(Index column) const override { return before_panel_[static_cast<std::size_t>(column / PANEL)]; }

 private:
  static constexpr Index PANEL = TwoWayRows<T>::PANEL, CONSTANT = -1;
  struct Diagonal {
    Index row, column, count;  // its first entry, and how many there are
    T value;                   // of all entries, if `at` says so
    Index at;                  // else where their values are
  };
  struct Run {
    Index top, first;  // row and diagonal
  };

  static bool moves_on(ShortCsr<T, S> M, Index row) {
    const std::uint32_t before = M.indptr[row - 1], start = M.indptr[row], end = M.indptr[row + 1];
    if (end - start != start - before) return false;
    for (std::uint32_t k = 0; k < end - start; ++k) {
      if (M.indices[start + k] != M.indices[before + k] + 1) return false;
    }
    return true;
  }
  // to = from + value·in, with so many of the diagonal's values from one on.
  void add(const Diagonal& one, Index skipped, const T* in, const T* from, T* to, Index count) const {
    if (one.at == CONSTANT) {
      entry_by_entry(to, 0, count, [&](auto at) { return at(from) + at(in) * one.value; });
    } else {
      const S* values = values_.data() + one.at + skipped;
      for (Index j = 0; j < count; ++j) to[j] = from[j] + static_cast<T>(values[j]) * in[j];
    }
  }

  double entries_;
  std::vector<S> values_;  // of diagonals whose values change, one after the other
  std::vector<Run> runs_;
  std::vector<Diagonal> diagonals_;
  std::vector<Index> starts_, listed_;  // the diagonals of each panel of columns
  std::vector<double> before_panel_;    // entries
};

}  // namespace dapd
