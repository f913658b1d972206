// One iteration of r²HPDHG as plain loops over the same bytes: bounds, costs, a sparse M and its transpose, or a dense M.
//     plain_loop sparse|dense STEPS    prints microseconds per iteration
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using Vector = std::vector<double>;

struct Csr {
  std::vector<int> starts, places;
  Vector values;
};

int main(int, char** argv) {
  const bool dense = std::string(argv[1]) == "dense";
  const int steps = std::atoi(argv[2]), m = dense ? 1000 : 100000, n = dense ? 4000 : 500000, each = 4;
  Csr rows, columns;
  Vector D;
  if (dense) {
    D.assign(static_cast<std::size_t>(m) * n, 1e-3);
  } else {
    std::mt19937 draw(0);
    for (int j = 0; j <= n; ++j) columns.starts.push_back(each * j);
    for (int k = 0; k < each * n; ++k) columns.places.push_back(static_cast<int>(draw() % m));
    rows.starts.assign(m + 1, 0);
    for (const int i : columns.places) ++rows.starts[i + 1];
    for (int i = 0; i < m; ++i) rows.starts[i + 1] += rows.starts[i];
    rows.places.resize(columns.places.size());
    auto at = rows.starts;
    for (int k = 0; k < each * n; ++k) rows.places[at[columns.places[k]]++] = k / each;
    rows.values.assign(rows.places.size(), 0.5), columns.values.assign(columns.places.size(), 0.5);
  }
  Vector x(n, 1), Mty(n), x_plain(n), Mty_plain(n), x_0(n), Mty_0(n), v(n), c(n, 1), lower(n, -1), upper(n, 1);
  Vector y(m), y_plain(m), y_0(m), b(m, 1);
  const double t = 0.1, s = 0.1;
  const auto began = std::chrono::steady_clock::now();
  for (int k = 0; k < steps; ++k) {
    const double back = 1.0 / (k + 2), ahead = 1 - back;
    for (int j = 0; j < n; ++j) {
      x_plain[j] = std::min(std::max(x[j] - t * Mty[j] + t * c[j], lower[j]), upper[j]);
      v[j] = s * (2 * x_plain[j] - x[j]);
    }
    if (dense) std::fill(Mty_plain.begin(), Mty_plain.end(), 0.0);
    for (int i = 0; i < m; ++i) {
      double sum = y[i] - s * b[i];
      const double* row = dense ? &D[static_cast<std::size_t>(i) * n] : nullptr;
      if (dense) {
        for (int j = 0; j < n; ++j) sum += row[j] * v[j];
        for (int j = 0; j < n; ++j) Mty_plain[j] += row[j] * sum;
      } else {
        for (int q = rows.starts[i]; q < rows.starts[i + 1]; ++q) sum += rows.values[q] * v[rows.places[q]];
      }
      y_plain[i] = sum;
      y[i] = ahead * (2 * sum - y[i]) + back * y_0[i];
    }
    for (int j = 0; j < n; ++j) {
      double sum = dense ? Mty_plain[j] : 0.0;
      if (!dense) {
        for (int q = columns.starts[j]; q < columns.starts[j + 1]; ++q) sum += columns.values[q] * y_plain[columns.places[q]];
      }
      Mty_plain[j] = sum;
      Mty[j] = ahead * (2 * sum - Mty[j]) + back * Mty_0[j];
      x[j] = ahead * (2 * x_plain[j] - x[j]) + back * x_0[j];
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%.6g %g\n", 1e6 * seconds / steps, x[0] + y[0]);
}
