// Natural units of a problem, as problem/units.py defines and explains them, from a stored matrix that is read once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "vec.hpp"

namespace dapd {

using Numbers = std::vector<double>;

// The power 1/4 of a magnitude, and its inverse.
inline double fourth_root(double v) { return std::sqrt(std::sqrt(v)); }
inline double fourth_power(double v) { return (v * v) * (v * v); }
inline double quotient(double v, double w) { return w > 0 ? v / w : 0.0; }

// Fourth roots of the magnitudes of a matrix, as it is stored.
struct Roots {
  Index rows, columns;
  Numbers entries;
  const std::int32_t* starts = nullptr;  // of rows; null if every entry is stored
  const std::int32_t* places = nullptr;
  bool has_zeros = false;

  template <class S>
  void take(const S* values, Index count) {
    entries.resize(static_cast<std::size_t>(count));
    double* root = entries.data();
    for (Index k = 0; k < count; ++k) root[k] = fourth_root(std::abs(static_cast<double>(values[k])));
    for (Index k = 0; k < count; ++k) has_zeros |= root[k] == 0;
  }
};

// For each row, or each column, a sum over its entries that are not zero, and how many of them meet what is known.
struct Sums {
  Numbers roots, counts;
};

inline Sums sums_of_rows(const Roots& M, const Numbers& weights, const Numbers& known) {
  Sums found{Numbers(M.rows), Numbers(M.rows)};
  double all = 0;
  for (const double one : known) all += one;
  for (Index i = 0; i < M.rows; ++i) {
    double sum = 0, count = 0;
    if (M.starts) {
      for (std::int32_t k = M.starts[i]; k < M.starts[i + 1]; ++k) {
        const double root = M.entries[k];
        sum += root * weights[M.places[k]], count += root != 0 ? known[M.places[k]] : 0.0;
      }
    } else {
      constexpr int WIDTH = LANES<double>;
      const double* row = M.entries.data() + i * M.columns;
      Vec<double> lanes{};
      Index j = 0;
      for (; j + WIDTH <= M.columns; j += WIDTH) lanes += load<double>(row + j) * load<double>(weights.data() + j);
      sum = total<double>(lanes);
      for (; j < M.columns; ++j) sum += row[j] * weights[j];
      count = all;
      if (M.has_zeros) {
        for (j = 0; j < M.columns; ++j) count -= row[j] == 0 ? known[j] : 0.0;
      }
    }
    found.roots[i] = sum, found.counts[i] = count;
  }
  return found;
}

inline Sums sums_of_columns(const Roots& M, const Numbers& weights, const Numbers& known) {
  Sums found{Numbers(M.columns), Numbers(M.columns)};
  for (Index i = 0; i < M.rows; ++i) {
    const double weight = weights[i], one = known[i];
    if (M.starts) {
      for (std::int32_t k = M.starts[i]; k < M.starts[i + 1]; ++k) {
        const double root = M.entries[k];
        found.roots[M.places[k]] += root * weight, found.counts[M.places[k]] += root != 0 ? one : 0.0;
      }
    } else {
      const double* row = M.entries.data() + i * M.columns;
      double *roots = found.roots.data(), *counts = found.counts.data();
      for (Index j = 0; j < M.columns; ++j) roots[j] += row[j] * weight;
      for (Index j = 0; j < M.columns; ++j) counts[j] += row[j] != 0 ? one : 0.0;
    }
  }
  return found;
}

// A matrix or its transpose.
struct Along {
  const Roots& M;
  bool by_rows;

  Index size() const { return by_rows ? M.columns : M.rows; }
  Sums of(const Numbers& weights, const Numbers& known) const {
    return by_rows ? sums_of_rows(M, weights, known) : sums_of_columns(M, weights, known);
  }
};

inline double greatest_or_one(const Numbers& numbers) {
  double most = 0;
  for (const double v : numbers) most = std::max(most, v);
  return most > 0 ? most : 1.0;
}

// The means of |M_ij|·numbers_j over the known numbers of each row; 0 if none is known. If `least`, those of
// numbers_j/|M_ij|, of whose inverses it is the mean.
inline Numbers mean(const Numbers& numbers, const Along& along, bool least = false) {
  const double most = greatest_or_one(numbers);
  Numbers weights(numbers.size()), known(numbers.size());
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    known[j] = numbers[j] > 0;
    const double root = fourth_root(numbers[j] / most);
    weights[j] = !least ? root : numbers[j] > 0 ? 1 / root : 0.0;
  }
  Sums found = along.of(weights, known);
  for (std::size_t i = 0; i < found.roots.size(); ++i) {
    const double power = fourth_power(quotient(found.roots[i], found.counts[i]));
    found.roots[i] = least ? quotient(most, power) : most * power;
  }
  return std::move(found.roots);
}

inline Numbers least_mean(const Numbers& numbers, const Along& along) { return mean(numbers, along, true); }

inline double typical(const Numbers& numbers) {
  double sum = 0, count = 0;
  for (const double v : numbers) {
    if (v > 0) sum += fourth_root(v), count += 1;
  }
  return count > 0 && sum > 0 ? fourth_power(sum / count) : 1.0;
}

template <class Test>
bool holds_for_any(const Numbers& numbers, Test test) {
  return std::any_of(numbers.begin(), numbers.end(), test);
}

// The units of all x and rows, from those that are known; where none arrives, `others`, or a mean.
inline void travel(Numbers& x, Numbers& rows, const Numbers& others, const Along& along_rows, const Along& along_columns,
                   int hops) {
  const auto unknown = [](double v) { return !(v > 0); };
  for (int hop = 0; hop < hops && holds_for_any(x, unknown); ++hop) {
    Numbers near = mean(x, along_rows);
    for (std::size_t i = 0; i < near.size(); ++i) near[i] = rows[i] > 0 ? rows[i] : near[i];
    const Numbers found = least_mean(near, along_columns);
    bool arrives = false;
    for (std::size_t j = 0; j < x.size(); ++j) {
      arrives |= x[j] == 0 && found[j] > 0;
      x[j] = x[j] > 0 ? x[j] : found[j];
    }
    if (!arrives) break;
  }
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = x[j] > 0 ? x[j] : others[j];
  const double usual = typical(x);
  for (double& v : x) v = v > 0 ? v : usual;
  const Numbers near = mean(x, along_rows);
  for (std::size_t i = 0; i < near.size(); ++i) rows[i] = std::max(rows[i], near[i]);
}

inline double lesser_known(double one, double other) { return one > 0 && (other == 0 || one < other) ? one : other; }

// The magnitudes in a problem, and what is found of them.
struct UnitsOf {
  Numbers rows, duals, primal, slopes, curvature;  // the data; rows become those of the rows of Mx − b
  Numbers x, y, columns;
  double objective = 1;

  // `rounding` and `hops` as in problem/units.py.
  void find(const Roots& M, bool transposed, double rounding, int hops) {
    const Along along_rows{M, !transposed}, along_columns{M, transposed};
    const std::size_t n = slopes.size();
    double deepest = 0;
    Numbers depths(n), energies(n), alone(n), bent(n);
    for (std::size_t j = 0; j < n; ++j) {
      depths[j] = quotient(slopes[j], std::sqrt(curvature[j]));
      deepest = std::max(deepest, depths[j]);
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (curvature[j] > 0 && depths[j] < rounding * deepest) slopes[j] = 0;
    }
    x = least_mean(rows, along_columns);
    for (std::size_t j = 0; j < n; ++j) {
      x[j] = lesser_known(primal[j], x[j]);
      x[j] = lesser_known(quotient(slopes[j], curvature[j]), x[j]);
      energies[j] = x[j] * std::max(slopes[j], curvature[j] * x[j]);
    }
    const double energy = typical(energies);
    for (std::size_t j = 0; j < n; ++j) {
      alone[j] = curvature[j] > 0 ? std::sqrt(energy / curvature[j]) : quotient(energy, slopes[j]);
    }
    travel(x, rows, alone, along_rows, along_columns, hops);
    y = least_mean(slopes, along_rows);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = lesser_known(duals[i], y[i]);
    for (std::size_t j = 0; j < n; ++j) bent[j] = slopes[j] > 0 ? 0.0 : curvature[j] * x[j];
    if (holds_for_any(y, [](double v) { return !(v > 0); })) {
      const Numbers others = least_mean(bent, along_rows);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] > 0 ? y[i] : others[i];
    }
    Numbers of_rows(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) of_rows[i] = quotient(energy, rows[i]);
    columns = slopes;
    travel(y, columns, of_rows, along_columns, along_rows, hops);
    for (std::size_t j = 0; j < n; ++j) {
      columns[j] = std::max(columns[j], bent[j]);
      energies[j] = columns[j] * x[j];
    }
    objective = typical(energies);
    for (double& v : rows) v = v > 0 ? v : 1.0;
    for (double& v : columns) v = v > 0 ? v : 1.0;
  }

  // Whether some numbers are so much less than others of their kind, `spread` times, that they may be rounding.
  bool is_wide(double rounding, double spread) const {
    double deepest = 0;
    for (std::size_t j = 0; j < slopes.size(); ++j) {
      deepest = std::max(deepest, quotient(slopes[j], std::sqrt(curvature[j])));
    }
    double low[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()}, high[2] = {0, 0};
    const auto note = [&](int kind, double v) {
      if (v > 0) low[kind] = std::min(low[kind], v), high[kind] = std::max(high[kind], v);
    };
    for (std::size_t j = 0; j < slopes.size(); ++j) {
      const double depth = quotient(slopes[j], std::sqrt(curvature[j]));
      const double slope = curvature[j] > 0 && depth < rounding * deepest ? 0.0 : slopes[j];
      note(0, primal[j]), note(0, std::max(primal[j], quotient(slope, curvature[j])));
      note(1, slope);
    }
    for (const double v : rows) note(0, v);
    for (const double v : duals) note(1, v);
    return low[0] < spread * high[0] || low[1] < spread * high[1];
  }
};

}  // namespace dapd
