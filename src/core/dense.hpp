// Products with rows of a dense matrix.
//
// Vectors begin where a cache line of the matrix does, because a load across two lines takes twice as long. The second
// of two products runs backwards: it begins with what the first has left in the nearest cache. Sums do not depend on
// where a matrix begins: column j adds to a sum with all columns j ± lanes, and `total` adds these in an order that
// has no first.
#pragma once

#include "vec.hpp"

namespace dapd {

inline constexpr Index LINE = 64;              // bytes of a cache line
inline constexpr int TALL = 12, SHORT = 4;     // rows at a time: streams from memory, sums in registers
inline constexpr Index WAY = 4096;             // bytes: lines a multiple of this apart compete for places in the cache
inline constexpr Index NARROW = VECTOR_BYTES / 4;  // fewer columns than this are multiplied one by one

// The first vector of a row has its first `lead` columns, the last one those from `stop` on.
struct Split {
  Index lead, stop;
};

template <class T, class S>
inline Split split(const S* row, Index columns) {
  constexpr Index lanes = LANES<T>;
  const Index place = static_cast<Index>(reinterpret_cast<std::uintptr_t>(row) / sizeof(S));
  const Index lead = lanes - (place & (lanes - 1));
  const Index between = (columns - lead - 1) / lanes;  // 0 if the first vector has all columns
  return {lead, lead + between * lanes};
}

// y = base + M v for R rows.
template <int R, class T, class S>
inline void dot_rows(const S* M, Index stride, Index columns, const T* v, const T* base, T* y) {
  constexpr Index lanes = LANES<T>;
  const Split at = split<T>(M, columns);
  Vec<T> sums[R] = {};
  const int first = static_cast<int>(lanes - at.lead), last = static_cast<int>(columns - at.stop);
  {
    const Vec<T> x = load_some<T>(v, first, lanes);
    for (int r = 0; r < R; ++r) sums[r] += load_some<T>(M + r * stride, first, lanes) * x;
  }
  for (Index j = at.lead; j < at.stop; j += lanes) {
    const Vec<T> x = load<T>(v + j);
    for (int r = 0; r < R; ++r) sums[r] += load<T>(M + r * stride + j) * x;
  }
  const Vec<T> x = load_some<T>(v + at.stop, 0, last);
  for (int r = 0; r < R; ++r) sums[r] += load_some<T>(M + r * stride + at.stop, 0, last) * x;
  for (int r = 0; r < R; ++r) y[r] = (base ? base[r] : T(0)) + total<T>(sums[r]);
}

// Which way a product runs along the rows. Memory is read faster forwards.
enum class Way { FORWARDS, BACKWARDS };

// out += Mᵀ y for R rows.
template <int R, Way W = Way::BACKWARDS, class T, class S>
inline void add_rows(const S* M, Index stride, Index columns, const T* y, T* out) {
  constexpr Index lanes = LANES<T>;
  const Split at = split<T>(M, columns);
  Vec<T> weights[R];
  for (int r = 0; r < R; ++r) weights[r] = all<T>(y[r]);
  const auto sum = [&](Index j) {
    Vec<T> so_far = load<T>(out + j);
    for (int r = 0; r < R; ++r) so_far += load<T>(M + r * stride + j) * weights[r];
    return so_far;
  };
  // the last vector and the first one overlap others, and change only what these do not
  const Index last = columns - lanes;
  store<T>(out + last, lanes_from<T>(at.stop - last) ? sum(last) : load<T>(out + last));
  if constexpr (W == Way::FORWARDS) {
    for (Index j = at.lead; j < at.stop; j += lanes) store<T>(out + j, sum(j));
  } else {
    for (Index j = at.stop - lanes; j >= at.lead; j -= lanes) store<T>(out + j, sum(j));
  }
  store<T>(out, lanes_from<T>(at.lead) ? load<T>(out) : sum(0));
}

// Whether TALL rows have places of their own in the nearest cache, column by column.
template <class S>
inline bool rows_apart(Index stride) {
  const Index beyond = stride * static_cast<Index>(sizeof(S)) % WAY;
  return LINE <= beyond && beyond <= WAY - LINE;
}

// y = base + M v in the rows start … stop − 1; M points to the first column that v has, base may be null.
template <class T, class S>
void dots(const S* M, Index stride, Index columns, const T* v, const T* base, T* y, Index start, Index stop) {
  const auto from = [base](Index i) { return base ? base + i : nullptr; };
  if (columns < NARROW) {
    for (Index i = start; i < stop; ++i) {
      T sum = base ? base[i] : T(0);
      for (Index j = 0; j < columns; ++j) sum += static_cast<T>(M[i * stride + j]) * v[j];
      y[i] = sum;
    }
    return;
  }
  Index i = start;
  if (rows_apart<S>(stride)) {
    for (; i + TALL <= stop; i += TALL) dot_rows<TALL>(M + i * stride, stride, columns, v, from(i), y + i);
  }
  for (; i + SHORT <= stop; i += SHORT) dot_rows<SHORT>(M + i * stride, stride, columns, v, from(i), y + i);
  for (; i < stop; ++i) dot_rows<1>(M + i * stride, stride, columns, v, from(i), y + i);
}

// out += Mᵀ y over the rows start … stop − 1, the last ones first.
template <Way W = Way::BACKWARDS, class T, class S>
void add(const S* M, Index stride, Index columns, const T* y, T* out, Index start, Index stop) {
  if (columns < NARROW) {
    for (Index i = start; i < stop; ++i) {
      for (Index j = 0; j < columns; ++j) out[j] += y[i] * static_cast<T>(M[i * stride + j]);
    }
    return;
  }
  Index i = stop;
  if (rows_apart<S>(stride)) {
    for (; i - TALL >= start; i -= TALL) {
      add_rows<TALL, W>(M + (i - TALL) * stride, stride, columns, y + i - TALL, out);
    }
  }
  for (; i - SHORT >= start; i -= SHORT) {
    add_rows<SHORT, W>(M + (i - SHORT) * stride, stride, columns, y + i - SHORT, out);
  }
  for (; i > start; --i) add_rows<1, W>(M + (i - 1) * stride, stride, columns, y + i - 1, out);
}

}  // namespace dapd
