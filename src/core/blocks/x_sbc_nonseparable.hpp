// x-SBC-DAPD for a nonseparable f, at the cost of a block per iteration; the plain twin, and what c and ε are, is in
// methods/x_sbc_nonseparable.py.
#pragma once

#include "draw.hpp"
#include "function.hpp"

namespace dapd {

// The part of f that joins the blocks: Σ ℓ(Ax; d), or ½xᵀAx if there is no loss; without rows, nothing does.
template <class T>
struct Coupling {
  Loss loss = Loss::NONE;
  T e = 0;
  BlockMatrix<T> A;
  const T* target = nullptr;

  Index rows() const { return static_cast<Index>(A.rows[0]); }
};

template <class T>
class XSbcNonseparable {
 public:
  struct Parameters {
    double t, s, s_hat, xi, gamma, chi, omega;
  };
  struct State {
    T *c, *e, *y, *Mc, *Me;
    T *Ac, *Ae;     // as long as A has rows
    double* scale;  // one number, the power of γ that ε lacks
  };

  XSbcNonseparable(const BlockProblem<T>& problem, const Coupling<T>& joint, const Parameters& p, const Plan& plan)
      : problem_(problem), joint_(joint), plan_(plan), p_(p), N_(problem.M.blocks), z_(problem.M.widest()),
        g_(problem.M.widest()), v_(problem.M.widest()), d_(problem.M.widest()), dy_(problem.rows()),
        dA_(joint.rows()), slope_(joint.rows()), image_(problem.image_size()) {}

  // Iterations from the k-th on, in the arrays of the state.
  void run(const State& s, Index k, Index steps, BlockCounts& counts) {
    const double back = p_.gamma / (1 - p_.gamma), ahead = p_.xi - 1 / (1 - p_.gamma);
    const double e_moves = (1 + p_.gamma) * p_.omega - 1, c_moves = (1 + p_.gamma) * p_.omega + back * e_moves;
    for (const Index end = k + steps; k < end; ++k) {
      const Drawn drawn = draw_blocks(plan_, k, N_);
      const T lag = T(back * *s.scale);
      if (joint_.loss != Loss::NONE) differentiate_loss(s, lag);
      partial(s, drawn.i, lag);
      dual_step(s, drawn.i, T(ahead * *s.scale));
      if (drawn.j != drawn.i) {
        partial(s, drawn.j, lag);
        counts.gradients += 1;
      }
      *s.scale *= p_.gamma;
      primal_step(s, drawn.j, T(c_moves), T(e_moves / *s.scale));
      counts.products += 4;
      counts.gradients += 1;
      const bool anew = (k + 1) % plan_.period == 0;
      if (anew || (k + 1) % plan_.rebase == 0) rebase(s);
      if (anew) {
        refresh(s);
        counts.products += 2 * N_;
      }
    }
  }

  // Ac and Aε afresh.
  void refresh_joint(const State& s) {
    if (joint_.rows() == 0) return;
    product(joint_.A, s.c, s.Ac);
    product(joint_.A, s.e, s.Ae);
  }

 private:
  // The derivative of the loss at Az.
  void differentiate_loss(const State& s, T lag) {
    const Index rows = joint_.rows();
    const T *__restrict Ac = s.Ac, *__restrict Ae = s.Ae;
    T* __restrict slope = slope_.data();
    for (Index r = 0; r < rows; ++r) slope[r] = Ac[r] - lag * Ae[r];
    slopes(joint_.loss, joint_.e, joint_.target, slope, rows);
  }

  // g = ∇_i f(z) for z = c − lag·ε.
  void partial(const State& s, Index i, T lag) {
    const Index first = static_cast<Index>(problem_.M.first[i]), size = problem_.M.columns(i);
    const T *__restrict c = s.c + first, *__restrict e = s.e + first;
    T *__restrict z = z_.data(), *__restrict g = g_.data();
    for (Index r = 0; r < size; ++r) z[r] = c[r] - lag * e[r];
    block_grad(problem_.f, i, z, g, image_.data());
    if (joint_.loss != Loss::NONE) {
      block_dots(joint_.A, i, slope_.data(), g, g);
    } else if (joint_.rows() > 0) {
      const T *__restrict Hc = s.Ac + first, *__restrict He = s.Ae + first;
      for (Index r = 0; r < size; ++r) g[r] += Hc[r] - lag * He[r];
    }
  }

  void dual_step(const State& s, Index i, T lead) {
    const Index rows = problem_.rows();
    const T by = T(p_.chi * p_.s / static_cast<double>(N_)), s_hat = T(p_.s_hat);
    const T *__restrict b = problem_.b, *__restrict Mc = s.Mc, *__restrict Me = s.Me;
    T *__restrict dy = dy_.data(), *__restrict y = s.y;
    std::fill(dy, dy + rows, T(0));
    block_add_square(problem_.M, i, y, g_.data(), dy);
    for (Index r = 0; r < rows; ++r) y[r] += by * (Mc[r] + lead * Me[r] - b[r]) - s_hat * dy[r];
  }

  void primal_step(const State& s, Index j, T c_by, T e_by) {
    const BlockMatrix<T>& M = problem_.M;
    const T t = T(p_.t);
    T *__restrict c = s.c + M.first[j], *__restrict e = s.e + M.first[j];
    T *__restrict v = v_.data(), *__restrict d = d_.data();
    const T* __restrict g = g_.data();
    block_dots(M, j, s.y, static_cast<const T*>(nullptr), v);
    for (Index r = 0; r < M.columns(j); ++r) {
      d[r] = -t * (g[r] + v[r]);
      c[r] += c_by * d[r];
      e[r] += e_by * d[r];
    }
    add_to_both(M, j, c_by, e_by, s.Mc, s.Me, dy_.data());
    if (joint_.rows() > 0) add_to_both(joint_.A, j, c_by, e_by, s.Ac, s.Ae, dA_.data());
  }

  // Bc += c_by·B_j d and Bε += e_by·B_j d. A dense block is read once; a sparse one must not cost all rows.
  void add_to_both(const BlockMatrix<T>& B, Index j, T c_by, T e_by, T* Bc, T* Be, T* __restrict Bd) {
    T *__restrict d = d_.data(), *__restrict v = v_.data();
    if (B.is_sparse(j)) {
      const auto scatter = [&](T by, T* out) {
        for (Index r = 0; r < B.columns(j); ++r) v[r] = by * d[r];
        block_add(B, j, v, out);
      };
      scatter(c_by, Bc);
      scatter(e_by, Be);
      return;
    }
    const Index rows = static_cast<Index>(B.rows[j]);
    std::fill(Bd, Bd + rows, T(0));
    block_add(B, j, d, Bd);
    for (Index r = 0; r < rows; ++r) Bc[r] += c_by * Bd[r];
    for (Index r = 0; r < rows; ++r) Be[r] += e_by * Bd[r];
  }

  // The power of γ back into ε.
  void rebase(const State& s) {
    const auto scaled = [by = T(*s.scale)](T* part, Index size) {
      for (Index r = 0; r < size; ++r) part[r] *= by;
    };
    scaled(s.e, problem_.columns());
    scaled(s.Me, problem_.rows());
    scaled(s.Ae, joint_.rows());
    *s.scale = 1;
  }

  void refresh(const State& s) {
    product(problem_.M, s.c, s.Mc);
    product(problem_.M, s.e, s.Me);
    refresh_joint(s);
  }

  BlockProblem<T> problem_;
  Coupling<T> joint_;
  Plan plan_;
  Parameters p_;
  Index N_;
  Buffer<T> z_, g_, v_, d_, dy_, dA_, slope_, image_;
};

}  // namespace dapd
