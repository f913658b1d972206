// Matrices cut into blocks of columns, each block stored column by column: B_iᵀy and B_i v both stream it once.
#pragma once

#include <algorithm>
#include <type_traits>

#include "../dense.hpp"
#include "../sparse_steps.hpp"

namespace dapd {

// B_1, …, B_N, dense or sparse, block by block. Columns of dense blocks begin with a cache line unless they are short.
template <class T>
struct BlockMatrix {
  Index blocks = 0;
  const std::int64_t* first = nullptr;   // block i has the columns first[i] … first[i + 1] − 1
  const std::int64_t* rows = nullptr;    // how many rows block i has
  const std::int64_t* stride = nullptr;  // entries from one column of a dense block to the next
  const std::int64_t* at = nullptr;      // where a dense block starts in `dense`; −1 for a sparse one
  const T* dense = nullptr;
  Csr<T, T, std::uint32_t> sparse{};  // the columns of sparse blocks are its rows

  Index columns(Index i) const { return static_cast<Index>(first[i + 1] - first[i]); }
  bool is_sparse(Index i) const { return at[i] < 0; }
  Index widest() const {
    Index most = 0;
    for (Index i = 0; i < blocks; ++i) most = std::max(most, columns(i));
    return most;
  }
  Index tallest() const { return blocks ? static_cast<Index>(*std::max_element(rows, rows + blocks)) : 0; }
  Csr<T, T, std::uint32_t> sparse_block(Index i) const {
    return {sparse.indptr + first[i], sparse.indices, sparse.values};
  }
};

inline constexpr int MANY = 8, FEW = 4;   // columns at a time
inline constexpr Index NEAR = 20 * 1024;  // bytes that stay in the nearest cache until they are used again

// Calls with (count, r, apart) for the columns r, r + apart, … of a dense block, `count` of them at once: far apart, so
// memory is read in a few long streams.
template <int count, class Call>
inline void in_streams(Index first, Index columns, Call call) {
  const Index apart = (columns - first) / count;
  for (Index r = first; r < first + apart; ++r) call(std::integral_constant<int, count>{}, r, apart);
}

// The same for all columns, which take so many bytes each.
template <class Call>
inline void by_columns(Index columns, Index bytes, Call call) {
  Index done = 0;
  if (MANY * bytes <= NEAR) {
    in_streams<MANY>(done, columns, call);
    done = columns / MANY * MANY;
  }
  in_streams<FEW>(done, columns, call);
  done += (columns - done) / FEW * FEW;
  in_streams<1>(done, columns, call);
}

// out = base + B_iᵀy; base may be null or out itself.
template <class T>
void block_dots(const BlockMatrix<T>& B, Index i, const T* y, const T* base, T* out) {
  if (B.is_sparse(i)) return B.sparse_block(i).times(y, base, out, 0, B.columns(i));
  const T* D = B.dense + B.at[i];
  const Index stride = B.stride[i], rows = B.rows[i];
  if (rows < NARROW) return dots(D, stride, rows, y, base, out, 0, B.columns(i));
  by_columns(B.columns(i), stride * static_cast<Index>(sizeof(T)), [&](auto count, Index r, Index apart) {
    constexpr int R = count;
    T sums[R];
    dot_rows<R>(D + r * stride, apart * stride, rows, y, static_cast<const T*>(nullptr), sums);
    for (int q = 0; q < R; ++q) out[r + q * apart] = sums[q] + (base ? base[r + q * apart] : T(0));
  });
}

// out += B_i v.
template <class T>
void block_add(const BlockMatrix<T>& B, Index i, const T* v, T* out) {
  if (B.is_sparse(i)) return B.sparse_block(i).scatter(v, out, 0, B.columns(i));
  const T* D = B.dense + B.at[i];
  const Index stride = B.stride[i], rows = B.rows[i];
  if (rows < NARROW) return add(D, stride, rows, v, out, 0, B.columns(i));
  by_columns(B.columns(i), stride * static_cast<Index>(sizeof(T)), [&](auto count, Index r, Index apart) {
    constexpr int R = count;
    T weights[R];
    for (int q = 0; q < R; ++q) weights[q] = v[r + q * apart];
    add_rows<R>(D + r * stride, apart * stride, rows, weights, out);
  });
}

template <class T>
void add_square(const T* D, Index stride, Index rows, Index columns, const T* y, const T* g, T* out) {
  if (rows < NARROW) {
    for (Index r = 0; r < columns; ++r) {
      T weight;
      dots(D + r * stride, stride, rows, y, g ? g + r : nullptr, &weight, 0, 1);
      add(D + r * stride, stride, rows, &weight, out, 0, 1);
    }
    return;
  }
  by_columns(columns, stride * static_cast<Index>(sizeof(T)), [&](auto count, Index r, Index apart) {
    constexpr int R = count;
    T weights[R];
    dot_rows<R>(D + r * stride, apart * stride, rows, y, static_cast<const T*>(nullptr), weights);
    if (g) {
      for (int q = 0; q < R; ++q) weights[q] += g[r + q * apart];
    }
    add_rows<R>(D + r * stride, apart * stride, rows, weights, out);
  });
}

// out += B_i(B_iᵀy + g); g may be null.
template <class T>
void block_add_square(const BlockMatrix<T>& B, Index i, const T* y, const T* g, T* out) {
  if (!B.is_sparse(i)) {
    add_square(B.dense + B.at[i], B.stride[i], B.rows[i], B.columns(i), y, g, out);
    return;
  }
  const auto columns = B.sparse_block(i);
  for (Index r = 0; r < B.columns(i); ++r) {
    T weight = g ? g[r] : T(0);
    for (std::uint32_t k = columns.indptr[r]; k < columns.indptr[r + 1]; ++k) {
      weight += columns.values[k] * y[columns.indices[k]];
    }
    for (std::uint32_t k = columns.indptr[r]; k < columns.indptr[r + 1]; ++k) {
      out[columns.indices[k]] += weight * columns.values[k];
    }
  }
}

// out = Bv; all blocks have the same rows.
template <class T>
void product(const BlockMatrix<T>& B, const T* v, T* out) {
  std::fill(out, out + B.tallest(), T(0));
  for (Index i = 0; i < B.blocks; ++i) block_add(B, i, v + B.first[i], out);
}

}  // namespace dapd
