// Rows of a sparse matrix sorted by their length, for a matrix beside which x and y stay near.
#pragma once

#include <numeric>

#include "two_way_steps.hpp"

namespace dapd {

// The entries of v at these places; loads of their own are faster than a processor's gather.
template <class T>
inline Vec<T> gathered(const T* v, const std::int32_t* at) {
  Vec<T> found;
  for (int k = 0; k < LANES<T>; ++k) found[k] = v[at[k]];
  return found;
}

// One product with a sparse matrix. CSR mispredicts where each row ends; here rows of one length stand together within a
// panel, and as many of them as a vector has lanes are multiplied at a time.
template <class T, class S>
class SortedRows {
 public:
  // Panels end at the cuts.
  SortedRows(const ShortCsr<T, S>& M, const Ends& cuts) : rows_(cuts.back()), first_{0} {
    std::vector<std::int32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    Index entries = 0;  // with those that fill up vectors
    const auto length = [&](Index i) { return static_cast<Index>(M.indptr[i + 1] - M.indptr[i]); };
    for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
      const auto begin = order.begin() + cuts[p], end = order.begin() + cuts[p + 1];
      std::stable_sort(begin, end, [&](Index a, Index b) { return length(a) < length(b); });
      for (auto at = begin; at != end;) {
        const Index same = length(*at);
        const auto stop = std::find_if(at, end, [&](Index i) { return length(i) != same; });
        groups_.push_back({at - order.begin(), stop - at, same, entries});
        entries += (stop - at + LANES<T> - 1) / LANES<T> * LANES<T> * same;
        at = stop;
      }
      first_.push_back(static_cast<Index>(groups_.size()));
    }
    std::copy(order.begin(), order.end(), rows_.data());
    values_ = Buffer<S>(entries);
    columns_ = Buffer<std::int32_t>(entries);
    std::fill(values_.data(), values_.data() + entries, S(0));
    std::fill(columns_.data(), columns_.data() + entries, 0);
    for (const Group& group : groups_) {
      for (Index i = 0; i < group.count; ++i) {
        const Index start = M.indptr[order[group.row + i]];
        const Index block = group.entry + i / LANES<T> * LANES<T> * group.length + i % LANES<T>;
        for (Index k = 0; k < group.length; ++k) {
          values_.data()[block + k * LANES<T>] = M.values[start + k];
          columns_.data()[block + k * LANES<T>] = static_cast<std::int32_t>(M.indices[start + k]);
        }
      }
    }
  }

  // out = base + Mv in the panels start … stop − 1.
  void times(const T* v, const T* base, T* out, Index start, Index stop) const {
    for (Index g = first_[start]; g < first_[stop]; ++g) {
      const Group& group = groups_[g];
      const S* value = values_.data() + group.entry;
      const std::int32_t *column = columns_.data() + group.entry, *row = rows_.data() + group.row;
      for (Index i = 0; i < group.count; i += LANES<T>) {
        Vec<T> sum{};
        for (Index k = 0; k < group.length; ++k, value += LANES<T>, column += LANES<T>) {
          sum += load<T>(value) * gathered(v, column);
        }
        const Index lanes = std::min<Index>(LANES<T>, group.count - i);
        for (Index k = 0; k < lanes; ++k) out[row[i + k]] = base[row[i + k]] + sum[k];
      }
    }
  }

 private:
  struct Group {
    Index row, count, length, entry;  // first row in the order, how many, entries of each, and where these begin
  };
  Buffer<std::int32_t> rows_;  // in their order
  std::vector<Group> groups_;
  std::vector<Index> first_;  // group of each panel
  Buffer<S> values_;
  Buffer<std::int32_t> columns_;
};

template <class T, class S>
class TwoWaySorted final : public TwoWayRows<T> {
 public:
  TwoWaySorted(const Phi<T>& phi, ShortCsr<T, S> M, Index rows, Index columns, Index first_row)
      : TwoWayRows<T>({first_row, first_row + rows}),
        row_cuts_(cuts_between_units(phi, this->rows, (rows + SHORT_PANEL - 1) / SHORT_PANEL)),
        column_cuts_(panels(columns)),
        by_rows_(M, from_zero(row_cuts_)),
        by_columns_(transposed(M, rows, columns)) {}

  const Ends* row_cuts() const override { return &row_cuts_; }
  const Ends* column_cuts() const override { return &column_cuts_; }
  bool columns_by_panels() const override { return true; }
  double before_row(Index row) const override {
    return entries_ * static_cast<double>(row - this->rows.start) / static_cast<double>(this->rows.stop - this->rows.start);
  }
  double before_column(Index column) const override {
    return entries_ * static_cast<double>(column) / static_cast<double>(column_cuts_.back());
  }
  void forward(const T* v, const T* base, T* y, Range own) const override {
    const Index top = this->rows.start;
    by_rows_.times(v, base + top, y + top, place(row_cuts_, own.start), place(row_cuts_, own.stop));
  }
  void backward(const T* y, T* out, Range own) const override {
    by_columns_.times(y + this->rows.start, out, out, place(column_cuts_, own.start), place(column_cuts_, own.stop));
  }

 private:
  static constexpr Index SHORT_PANEL = TwoWayRows<T>::PANEL / 2;  // rows, which threads divide among them

  static Ends panels(Index columns) {
    Ends ends{0};
    while (ends.back() < columns) ends.push_back(std::min(columns, ends.back() + TwoWayRows<T>::PANEL));
    return ends;
  }
  static Ends from_zero(Ends ends) {
    const Index first = ends.front();
    for (Index& end : ends) end -= first;
    return ends;
  }
  SortedRows<T, S> transposed(const ShortCsr<T, S>& M, Index rows, Index columns) {
    const Index count = static_cast<Index>(M.indptr[rows]);
    entries_ = static_cast<double>(count);
    std::vector<std::uint32_t> indptr(columns + 1, 0), indices(count);
    std::vector<S> values(count);
    for (Index k = 0; k < count; ++k) ++indptr[M.indices[k] + 1];
    std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
    std::vector<std::uint32_t> at(indptr.begin(), indptr.end() - 1);
    for (Index i = 0; i < rows; ++i) {
      for (std::uint32_t k = M.indptr[i]; k < M.indptr[i + 1]; ++k) {
        const std::uint32_t to = at[M.indices[k]]++;
        indices[to] = static_cast<std::uint32_t>(i), values[to] = M.values[k];
      }
    }
    return {ShortCsr<T, S>{indptr.data(), indices.data(), values.data()}, column_cuts_};
  }

  double entries_ = 0;
  Ends row_cuts_, column_cuts_;
  SortedRows<T, S> by_rows_, by_columns_;
};

}  // namespace dapd
