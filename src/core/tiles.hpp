// Tiles of a sparse matrix, for large ones whose entries are scattered.
#pragma once

#include "two_way_steps.hpp"

namespace dapd {

// A sparse matrix cut into tiles, whose part of x and part of y stay near. If the entries of a row are far apart, CSR
// spends its time waiting for x. A tile's entries have 16-bit places, so tiles take no more memory than a stored
// transpose would.
template <class T, class S>
class TwoWayTiles final : public TwoWayRows<T> {
 public:
  static constexpr Index SIDE = 1 << 15;  // rows and columns of a tile at most: so many numbers stay near

  TwoWayTiles(const Phi<T>& phi, ShortCsr<T, S> M, Index rows, Index columns, Index first_row)
      : TwoWayRows<T>({first_row, first_row + rows}),
        top_(tops(phi, this->rows)),
        left_(lefts(columns)),
        down_(static_cast<Index>(top_.size()) - 1),
        across_(static_cast<Index>(left_.size()) - 1),
        start_(down_ * (across_ + 1) + 1, 0),
        before_column_(across_ + 1, 0) {
    const Index entries = static_cast<Index>(M.indptr[rows]);
    values_ = Buffer<S>(entries);
    row_ = Buffer<std::uint16_t>(entries);
    column_ = Buffer<std::uint16_t>(entries);
    const Index width = left_[1];
    std::vector<Index> at(across_);
    Index total = 0;
    for (Index p = 0; p < down_; ++p) {
      const Index top = top_[p] - first_row, bottom = top_[p + 1] - first_row;
      if (bottom - top > 2 * SIDE) throw std::invalid_argument("phi has a group with more rows than a tile");
      std::fill(at.begin(), at.end(), 0);
      for (std::uint32_t k = M.indptr[top]; k < M.indptr[bottom]; ++k) ++at[static_cast<Index>(M.indices[k]) / width];
      for (Index q = 0; q < across_; ++q) {
        start_[p * (across_ + 1) + q] = total;
        total += at[q];
        before_column_[q + 1] += static_cast<double>(at[q]);
        at[q] = start_[p * (across_ + 1) + q];
      }
      start_[p * (across_ + 1) + across_] = total;
      for (Index i = top; i < bottom; ++i) {
        for (std::uint32_t k = M.indptr[i]; k < M.indptr[i + 1]; ++k) {
          const Index q = static_cast<Index>(M.indices[k]) / width, to = at[q]++;
          values_.data()[to] = M.values[k];
          row_.data()[to] = static_cast<std::uint16_t>(i - top);
          column_.data()[to] = static_cast<std::uint16_t>(static_cast<Index>(M.indices[k]) - left_[q]);
        }
      }
    }
    for (Index q = 0; q < across_; ++q) before_column_[q + 1] += before_column_[q];
  }

  const Ends* row_cuts() const override { return &top_; }
  const Ends* column_cuts() const override { return &left_; }
  double before_row(Index row) const override {
    const Index p = place(top_, row);
    return static_cast<double>(p == down_ ? values_.size() : start_[p * (across_ + 1)]);
  }
  double before_column(Index column) const override { return before_column_[place(left_, column)]; }

  void forward(const T* v, const T* base, T* y, Range own) const override {
    std::copy(base + own.start, base + own.stop, y + own.start);
    const Index first = place(top_, own.start), last = place(top_, own.stop);
    for (Index q = 0; q < across_; ++q) {
      const T* part = v + left_[q];
      // in order, which is faster than as the entries have it
      for (Index j = 0; j < left_[q + 1] - left_[q]; j += 64 / static_cast<Index>(sizeof(T))) __builtin_prefetch(part + j);
      for (Index p = first; p < last; ++p) {
        const Index at = start_[p * (across_ + 1) + q], count = start_[p * (across_ + 1) + q + 1] - at;
        multiply(values_.data() + at, column_.data() + at, row_.data() + at, count, part, y + top_[p]);
      }
    }
  }
  void backward(const T* y, T* out, Range own) const override {
    for (Index q = place(left_, own.start); q < place(left_, own.stop); ++q) {
      for (Index p = 0; p < down_; ++p) {
        const Index at = start_[p * (across_ + 1) + q], count = start_[p * (across_ + 1) + q + 1] - at;
        multiply(values_.data() + at, row_.data() + at, column_.data() + at, count, y + top_[p], out + left_[q]);
      }
    }
  }

 private:
  static Ends tops(const Phi<T>& phi, Range rows) {  // as few tiles as there may be
    return cuts_between_units(phi, rows, std::max<Index>(4, (rows.stop - rows.start + SIDE - 1) / SIDE));
  }
  static Ends lefts(Index columns) {
    const Index count = std::max<Index>(std::min<Index>(8, columns), (columns + SIDE - 1) / SIDE);
    const Index width = (columns + count - 1) / count;
    Ends ends{0};
    while (ends.back() < columns) ends.push_back(std::min(columns, ends.back() + width));
    return ends;
  }
  // A tile's entries times a part of one vector, added to a part of another. As a part of its callers it would be short
  // of registers.
  [[gnu::noinline]] static void multiply(const S* values, const std::uint16_t* from, const std::uint16_t* to, Index count,
                                         const T* in, T* out) {
    for (Index k = 0; k < count; ++k) out[to[k]] += static_cast<T>(values[k]) * in[from[k]];
  }

  Ends top_, left_;  // first rows of the tiles (p, ·) and first columns of the tiles (·, q), and the ends
  Index down_, across_;
  std::vector<Index> start_;  // tile (p, q) has the entries start[p, q] … start[p, q + 1] − 1, row by row
  std::vector<double> before_column_;
  Buffer<S> values_;
  Buffer<std::uint16_t> row_, column_;  // within the tile
};

}  // namespace dapd
