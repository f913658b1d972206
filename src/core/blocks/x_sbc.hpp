// x-SBC-DAPD; the plain twin is `step` in methods/x_sbc.py.
#pragma once

#include "draw.hpp"
#include "function.hpp"

namespace dapd {

template <class T>
class XSbc {
 public:
  struct Parameters {
    double t, s, s_hat, xi, gamma, chi;
  };
  struct State {
    T *x, *z, *g, *y, *Mx_hat;
  };

  XSbc(const BlockProblem<T>& problem, const Parameters& p, const Plan& plan)
      : problem_(problem), plan_(plan), N_(problem.M.blocks), t_(T(p.t)), s_hat_(T(p.s_hat)), xi_(T(p.xi)),
        xi_less_(T(p.xi - 1)), gamma_(T(p.gamma)), gamma_more_(T(1 + p.gamma)),
        dual_(T(p.chi * p.s / static_cast<double>(N_))), v_(problem.M.widest()), dy_(problem.rows()),
        image_(problem.image_size()) {}

  // Iterations from the k-th on, in the arrays of the state.
  void run(const State& s, Index k, Index steps, BlockCounts& counts) {
    for (const Index end = k + steps; k < end; ++k) {
      const Drawn drawn = draw_blocks(plan_, k, N_);
      dual_step(s, drawn.i);
      primal_step(s, drawn.j);
      counts.products += 4;
      counts.gradients += 1;
      if ((k + 1) % plan_.period == 0) {
        refresh(s);
        counts.products += N_;
      }
    }
  }

 private:
  static constexpr const T* NOTHING = nullptr;  // no base, no g

  void dual_step(const State& s, Index i) {
    const BlockMatrix<T>& M = problem_.M;
    const Index rows = problem_.rows();
    const T *__restrict b = problem_.b, *__restrict Mx_hat = s.Mx_hat;
    T *__restrict dy = dy_.data(), *__restrict y = s.y;
    std::fill(dy, dy + rows, T(0));
    block_add_square(M, i, y, s.g + M.first[i], dy);
    for (Index r = 0; r < rows; ++r) y[r] += dual_ * (Mx_hat[r] - b[r]) - s_hat_ * dy[r];
  }

  void primal_step(const State& s, Index j) {
    const BlockMatrix<T>& M = problem_.M;
    T *__restrict x = s.x + M.first[j], *__restrict z = s.z + M.first[j], *__restrict g = s.g + M.first[j];
    T* __restrict v = v_.data();
    block_dots(M, j, s.y, NOTHING, v);
    for (Index r = 0; r < M.columns(j); ++r) {
      const T x_new = z[r] - t_ * (g[r] + v[r]);
      const T z_new = gamma_more_ * x_new - gamma_ * x[r];
      v[r] = (xi_ * z_new - xi_less_ * x_new) - (xi_ * z[r] - xi_less_ * x[r]);
      x[r] = x_new;
      z[r] = z_new;
    }
    block_add(M, j, v, s.Mx_hat);
    block_grad(problem_.f, j, z, g, image_.data());
  }

  // Mx̂ afresh.
  void refresh(const State& s) {
    const BlockMatrix<T>& M = problem_.M;
    std::fill(s.Mx_hat, s.Mx_hat + problem_.rows(), T(0));
    for (Index j = 0; j < N_; ++j) {
      const T *x = s.x + M.first[j], *z = s.z + M.first[j];
      for (Index r = 0; r < M.columns(j); ++r) v_.data()[r] = xi_ * z[r] - xi_less_ * x[r];
      block_add(M, j, v_.data(), s.Mx_hat);
    }
  }

  BlockProblem<T> problem_;
  Plan plan_;
  Index N_;
  T t_, s_hat_, xi_, xi_less_, gamma_, gamma_more_, dual_;
  Buffer<T> v_, dy_, image_;
};

}  // namespace dapd
