// Rows of a dual step that Python computes: those of a φ, or of a loss, that the core does not know.
#pragma once

#include <functional>

#include "dual_step.hpp"

namespace dapd {

// The dual step of another map whose phases come twice, first for y = base + Mv and then for Mᵀy; in between, the first
// thread calls Python, which replaces its rows of y. So a map that goes panel by panel reads M twice.
template <class T>
class CalledStep final : public DualStep<T> {
 public:
  using Call = std::function<void(T* y, T step)>;
  CalledStep(std::unique_ptr<DualStep<T>> inner, Call call)
      : DualStep<T>(inner->phi, inner->columns), inner_(std::move(inner)), call_(std::move(call)) {}

  void share(int threads, const Ends* wanted) override {
    inner_->share(threads, wanted);
    this->threads = threads;
    this->column_ends = inner_->column_ends;
    this->row_ranges = inner_->row_ranges;
  }
  int phases() const override { return 2 * inner_->phases() + 1; }
  bool reads_all_v() const override { return inner_->reads_all_v(); }
  bool reads_all_y() const override { return this->threads > 1; }
  bool writes_all_out() const override { return inner_->writes_all_out(); }
  bool exchanges_scratch() const override { return inner_->exchanges_scratch(); }
  bool calls_python() const override { return true; }
  double work() const override { return inner_->work(); }

  void run(int phase, int rank, const Vectors<T>& vectors) override {
    const int halfway = inner_->phases();
    if (phase == halfway) {
      if (rank == 0) call_(vectors.y, vectors.step);
      return;
    }
    Vectors<T> half = vectors;
    (phase < halfway ? half.backward : half.forward) = false;
    inner_->run(phase < halfway ? phase : phase - halfway - 1, rank, half);
  }

 private:
  std::unique_ptr<DualStep<T>> inner_;
  Call call_;
};

}  // namespace dapd
