// The gradient of f(x) = Σᵢ ℓ(aᵢᵀx; dᵢ) + ½xᵀHx − cᵀx, in phases like a dual step.
#pragma once

#include <functional>

#include "dual_step.hpp"

namespace dapd {

template <class T>
class Gradient {
 public:
  virtual ~Gradient() = default;
  virtual void share(int threads, const Ends& columns) = 0;
  virtual int phases() const { return 1; }
  virtual bool reads_all_x() const { return false; }
  virtual bool writes_anywhere() const { return false; }  // in the first phase, not only a thread's own columns
  virtual bool exchanges_scratch() const { return false; }  // later phases read what other threads noted in the first
  virtual void run(int phase, int rank, const T* x, T* out, unsigned turn) = 0;
  virtual bool calls_python() const { return false; }  // as a dual step may
  virtual bool is_entrywise() const { return false; }                // then `entries` is all of it
  virtual void entries(const T* /*x*/, T* /*out*/, Range) const {}
  virtual double work() const { return 0; }
};

// A symmetric H, whose rows are multiplied: out = base + Hx in some of them, base may be null.
template <class T>
struct SquareMatrix {
  double work = 0;  // multiplications
  std::function<void(const T* x, const T* base, T* out, Range rows)> times;
};

// What the lowered f holds; each part may be absent.
template <class T>
struct Terms {
  std::unique_ptr<DualStep<T>> loss_of_Ax;  // the loss's derivative stands in the place of its prox
  const T* base = nullptr;                  // added to Ax before the loss: −d, or 0
  Slope<T> loss_of_x;                       // the loss of x itself
  const T* shift = nullptr;                 // added to x before that loss
  T ridge = 0;                      // H = ridge·I
  const T* diagonal = nullptr;      // H = diag(diagonal)
  SquareMatrix<T> matrix;           // H
  const T* minus_c = nullptr;
};

template <class T>
class TermsGradient final : public Gradient<T> {
 public:
  TermsGradient(Terms<T> terms, Index size) : f_(std::move(terms)), size_(size) {
    if (f_.loss_of_Ax) image_ = Buffer<T>(f_.loss_of_Ax->rows);
  }
  void share(int threads, const Ends& columns) override {
    columns_ = columns;
    if (f_.loss_of_Ax) f_.loss_of_Ax->share(threads, &columns);
  }
  int phases() const override { return f_.loss_of_Ax ? f_.loss_of_Ax->phases() : 1; }
  bool reads_all_x() const override { return f_.matrix.times || (f_.loss_of_Ax && f_.loss_of_Ax->reads_all_v()); }
  bool writes_anywhere() const override { return f_.loss_of_Ax && f_.loss_of_Ax->writes_all_out(); }
  bool exchanges_scratch() const override { return f_.loss_of_Ax && f_.loss_of_Ax->exchanges_scratch(); }
  bool calls_python() const override { return f_.loss_of_Ax && f_.loss_of_Ax->calls_python(); }
  double work() const override {
    return static_cast<double>(size_) + (f_.loss_of_Ax ? f_.loss_of_Ax->work() : 0) + f_.matrix.work;
  }

  void run(int phase, int rank, const T* x, T* out, unsigned turn) override {
    const Range own{columns_[rank], columns_[rank + 1]};
    const T* base = f_.minus_c;
    if (f_.loss_of_Ax) {
      f_.loss_of_Ax->run(phase, rank, {x, f_.base, T(1), image_.data(), out, turn});
      if (phase + 1 < f_.loss_of_Ax->phases()) return;
      if (f_.minus_c) {
        for (Index j = own.start; j < own.stop; ++j) out[j] += f_.minus_c[j];
      }
      base = out;
    }
    if (f_.matrix.times) {
      f_.matrix.times(x, base, out, own);
      base = out;
    }
    add_entries(x, base, out, own);
  }
  bool is_entrywise() const override { return !f_.loss_of_Ax && !f_.matrix.times; }
  void entries(const T* x, T* out, Range some) const override { add_entries(x, f_.minus_c, out, some); }

 private:
  // What acts on x entry by entry: out = base + ℓ'(x) + ridge·x + diagonal·x, base null, −c or out itself.
  void add_entries(const T* x, const T* base, T* out, Range some) const {
    // a piece at a time, so what one loop writes is near for the next
    for (Index start = some.start; start < some.stop; start += PIECE) {
      add_piece(x, base, out, {start, std::min(start + PIECE, some.stop)});
    }
  }
  void add_piece(const T* x, const T* base, T* out, Range piece) const {
    const Index start = piece.start, stop = piece.stop;
    const T ridge = f_.ridge, *diagonal = f_.diagonal;
    const Slope<T>& slope = f_.loss_of_x;
    if (slope.loss == Loss::PSEUDO_HUBER && !base && !diagonal && !f_.shift && slope.one_parameter) {
      const T e = slope.parameter[0];  // all of a PseudoHuber in one loop
      for (Index j = start; j < stop; ++j) out[j] = huber_slope(e, x[j]) + ridge * x[j];
      return;
    }
    if (slope.loss != Loss::NONE) {
      loss(x, base, out, piece);
      base = out;
    }
    if (!base) {
      std::fill(out + start, out + stop, T(0));
      base = out;
    }
    if (diagonal && ridge != T(0)) {
      entry_by_entry(out, start, stop, [&](auto at) { return at(base) + (at(diagonal) + ridge) * at(x); });
    } else if (diagonal) {
      entry_by_entry(out, start, stop, [&](auto at) { return at(base) + at(diagonal) * at(x); });
    } else if (ridge != T(0)) {
      entry_by_entry(out, start, stop, [&](auto at) { return at(base) + ridge * at(x); });
    } else if (base != out) {
      std::copy(base + start, base + stop, out + start);
    }
  }

  void loss(const T* x, const T* base, T* out, Range piece) const {
    T slopes[PIECE];  // since out may be the base already
    const Index start = piece.start, count = piece.stop - piece.start;
    const T* shift = f_.shift ? f_.shift + start : nullptr;
    for (Index k = 0; k < count; ++k) slopes[k] = shift ? x[start + k] + shift[k] : x[start + k];
    Slope<T> slope = f_.loss_of_x;
    if (!slope.one_parameter) slope.parameter += start;
    slope(slopes, 0, count);
    if (base) {
      const T* from = base + start;
      entry_by_entry(out + start, 0, count, [&](auto at) { return at(from) + at(slopes); });
    } else {
      std::copy(slopes, slopes + count, out + start);
    }
  }

  static constexpr Index PIECE = 1024;  // entries that stay near from one loop to the next

  Terms<T> f_;
  Index size_;
  Ends columns_;
  Buffer<T> image_;
};

// Σ f_i(x_i): each thread has functions of its own, whose blocks need not be where columns are cut.
template <class T>
class SeparableGradient final : public Gradient<T> {
 public:
  SeparableGradient(std::vector<std::unique_ptr<Gradient<T>>> parts, Ends first)
      : parts_(std::move(parts)), first_(std::move(first)) {}
  void share(int threads, const Ends&) override {
    threads_ = threads;
    double whole = 0, before = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->share(1, {0, first_[i + 1] - first_[i]});
      whole += parts_[i]->work();
    }
    ends_.assign(threads + 1, static_cast<Index>(parts_.size()));
    ends_[0] = 0;
    if (calls_python()) return;  // the first thread has all
    int t = 1;
    for (std::size_t i = 0; i < parts_.size() && t < threads; ++i) {
      before += parts_[i]->work();
      for (; t < threads && before >= whole * t / threads; ++t) ends_[t] = static_cast<Index>(i) + 1;
    }
  }
  bool reads_all_x() const override { return threads_ > 1; }
  bool writes_anywhere() const override { return threads_ > 1; }
  bool calls_python() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->calls_python(); });
  }
  double work() const override {
    double sum = 0;
    for (const auto& part : parts_) sum += part->work();
    return sum;
  }
  void run(int, int rank, const T* x, T* out, unsigned turn) override {
    for (Index i = ends_[rank]; i < ends_[rank + 1]; ++i) {
      for (int phase = 0; phase < parts_[i]->phases(); ++phase) {
        parts_[i]->run(phase, 0, x + first_[i], out + first_[i], turn);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Gradient<T>>> parts_;
  Ends first_, ends_;
  int threads_ = 1;
};

}  // namespace dapd
