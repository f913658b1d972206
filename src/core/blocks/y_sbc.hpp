// y-SBC-DAPD; the plain twin is `step` in methods/y_sbc.py.
#pragma once

#include "draw.hpp"
#include "function.hpp"

namespace dapd {

template <class T>
class YSbc {
 public:
  struct Parameters {
    double t, t_tilde, s, s_hat, xi, tau;
  };
  struct State {
    T *x, *g, *y, *w, *forward, *MMty;
  };

  // MMt is MMᵀ as one block, without rows if it is larger than M.
  YSbc(const BlockProblem<T>& problem, const BlockMatrix<T>& MMt, const Parameters& p, const Plan& plan)
      : problem_(problem), MMt_(MMt), plan_(plan), N_(problem.M.blocks), t_(T(p.t)), t_tilde_(T(p.t_tilde)),
        s_hat_(T(p.s_hat)), xi_(T(p.xi)), xi_less_(T(p.xi - 1)), tau_(T(p.tau)), tau_more_(T(1 + p.tau)),
        dual_(T(p.s / static_cast<double>(N_))), anchor_(T(p.s_hat / static_cast<double>(N_))), v_(problem.M.widest()),
        g_new_(problem.M.widest()), u_(problem.rows()), y_new_(problem.rows()), image_(problem.image_size()) {}

  // Iterations from the k-th on, in the arrays of the state.
  void run(const State& s, Index k, Index steps, BlockCounts& counts) {
    for (const Index end = k + steps; k < end; ++k) {
      const Drawn drawn = draw_blocks(plan_, k, N_);
      dual_step(s, drawn.i, draw(plan_.key, k, FOR_COIN, N_) == 0, counts);
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

  void dual_step(const State& s, Index i, bool move_anchor, BlockCounts& counts) {
    const Index rows = problem_.rows();
    const T *__restrict b = problem_.b, *__restrict forward = s.forward;
    T *__restrict y = s.y, *__restrict w = s.w, *__restrict MMty = s.MMty;
    T *__restrict u = u_.data(), *__restrict y_new = y_new_.data();
    for (Index r = 0; r < rows; ++r) u[r] = w[r] - y[r];
    std::fill(y_new, y_new + rows, T(0));
    block_add_square(problem_.M, i, u, NOTHING, y_new);
    for (Index r = 0; r < rows; ++r) {
      y_new[r] = w[r] + dual_ * (forward[r] - b[r]) - anchor_ * MMty[r] - s_hat_ * y_new[r];
      u[r] = xi_ * y_new[r] - xi_less_ * y[r];
    }
    if (move_anchor) {
      std::copy(y_new, y_new + rows, y);
      counts.products += square(y, MMty);
    }
    for (Index r = 0; r < rows; ++r) w[r] = (tau_ * y[r] + u[r]) / tau_more_;
  }

  void primal_step(const State& s, Index j) {
    const BlockMatrix<T>& M = problem_.M;
    const Index size = M.columns(j);
    T *__restrict x = s.x + M.first[j], *__restrict g = s.g + M.first[j];
    T *__restrict v = v_.data(), *__restrict g_new = g_new_.data();
    block_dots(M, j, u_.data(), NOTHING, v);
    for (Index r = 0; r < size; ++r) {
      const T x_new = x[r] - t_tilde_ * (g[r] + v[r]);
      v[r] = x_new - x[r];
      x[r] = x_new;
    }
    block_grad(problem_.f, j, x, g_new, image_.data());
    for (Index r = 0; r < size; ++r) {
      v[r] -= t_ * (g_new[r] - g[r]);
      g[r] = g_new[r];
    }
    block_add(M, j, v, s.forward);
  }

  // out = MMᵀy, by the blocks if MMᵀ is not at hand; returns the block products spent.
  Index square(const T* y, T* out) {
    if (MMt_.rows[0] > 0) {
      block_dots(MMt_, 0, y, NOTHING, out);
      return 0;
    }
    std::fill(out, out + problem_.rows(), T(0));
    for (Index i = 0; i < N_; ++i) block_add_square(problem_.M, i, y, NOTHING, out);
    return 2 * N_;
  }

  // M(x − t∇f(x)) afresh; MMᵀy is at every move of y.
  void refresh(const State& s) {
    const BlockMatrix<T>& M = problem_.M;
    std::fill(s.forward, s.forward + problem_.rows(), T(0));
    for (Index j = 0; j < N_; ++j) {
      const T *x = s.x + M.first[j], *g = s.g + M.first[j];
      for (Index r = 0; r < M.columns(j); ++r) v_.data()[r] = x[r] - t_ * g[r];
      block_add(M, j, v_.data(), s.forward);
    }
  }

  BlockProblem<T> problem_;
  BlockMatrix<T> MMt_;
  Plan plan_;
  Index N_;
  T t_, t_tilde_, s_hat_, xi_, xi_less_, tau_, tau_more_, dual_, anchor_;
  Buffer<T> v_, g_new_, u_, y_new_, image_;
};

}  // namespace dapd
