// The dual step y = prox(base + Mv), out = Mᵀy, cut into phases between which threads meet, and shared by threads.
//
// Vectors are shared memory. A thread writes only its own rows of y and its own columns of out; what it reads of others'
// is declared, and the runner lets threads meet accordingly. So a kernel never waits for anyone itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "phi.hpp"

namespace dapd {

// Numbers that begin with a cache line, set to zero.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size) : size_(size) {
    // calloc leaves untouched pages to the system, so a buffer that is not used takes no memory
    const std::uintptr_t apart = size * static_cast<Index>(sizeof(T)) < LONG ? 0 : next_offset();
    raw_.reset(static_cast<char*>(std::calloc(static_cast<std::size_t>(size) * sizeof(T) + 2 * ALIGNED + apart, 1)));
    if (!raw_) throw std::bad_alloc();
    const auto place = reinterpret_cast<std::uintptr_t>(raw_.get()) + apart;
    data_ = reinterpret_cast<T*>((place + ALIGNED - 1) / ALIGNED * ALIGNED);
    use_huge_pages();
  }
  T* data() const { return data_; }
  Index size() const { return size_; }

 private:
  // Large pages, as NumPy asks for them too: entries that are read from far places would miss the table of small ones.
  void use_huge_pages() const {
#if defined(__linux__)
    constexpr std::uintptr_t PAGE = 4096;
    const auto first = (reinterpret_cast<std::uintptr_t>(data_) + PAGE - 1) / PAGE * PAGE;
    const auto last = reinterpret_cast<std::uintptr_t>(data_ + size_) / PAGE * PAGE;
    if (last >= first + (1u << 22)) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
  }

  // Long buffers start at a page boundary, so equal entries of many of them would compete for few places of a cache.
  static std::uintptr_t next_offset() {
    static std::atomic<unsigned> count{0};
    return (count.fetch_add(1, std::memory_order_relaxed) % 32) * 37 * ALIGNED;
  }

  static constexpr Index LONG = 1 << 17;  // bytes
  static constexpr std::uintptr_t ALIGNED = 128;  // two lines: processors fetch them in pairs
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> raw_;
  T* data_ = nullptr;
  Index size_ = 0;
};

struct Range {
  Index start, stop;
};

using Ends = std::vector<Index>;  // thread t has ends[t] … ends[t + 1] − 1

// As many columns for each thread, cut at cache lines.
inline Ends even_columns(Index columns, int threads) {
  constexpr Index line = 16;
  Ends ends(threads + 1, 0);
  for (int t = 1; t < threads; ++t) ends[t] = std::min(columns, (columns * t / threads + line / 2) / line * line);
  ends[threads] = columns;
  return ends;
}

// Rows cut between units; each thread has about the same weight; weight(i) is that of the rows before i.
template <class T, class Weight>
Ends even_rows(const Phi<T>& phi, Range rows, int threads, Weight weight, Index multiple = 1) {
  const Index first = phi.unit_at(rows.start), last = phi.unit_at(rows.stop);
  const double begin = static_cast<double>(weight(rows.start)), whole = static_cast<double>(weight(rows.stop)) - begin;
  Ends ends(threads + 1, rows.start);
  Index unit = first;
  for (int t = 1; t < threads; ++t) {
    const double goal = begin + whole * t / threads;
    while (unit < last && (static_cast<double>(weight(phi.row_of(unit))) < goal ||
                           (phi.row_of(unit) - rows.start) % multiple != 0)) {
      ++unit;
    }
    ends[t] = unit < last ? phi.row_of(unit) : rows.stop;
  }
  ends[threads] = rows.stop;
  return ends;
}

// Something to be done with some entries of vectors, by the thread whose entries they are.
struct Entrywise {
  virtual ~Entrywise() = default;
  virtual void operator()(Range entries) const = 0;
};

template <class T>
struct Vectors {
  const T* v;
  const T* base;
  T step;
  T* y;
  T* out;
  unsigned turn;  // counts the calls with this map, the same on every thread
  // Without `backward`, the phases only make y; without `forward`, they only make out, of a y that stands there already.
  bool forward = true, backward = true;
  // For a map that goes panel by panel, so these find it near; may be null.
  const Entrywise* before_rows = nullptr;    // in the first phase, before a panel's base is read
  const Entrywise* after_rows = nullptr;     // and when its y is known
  const Entrywise* after_columns = nullptr;  // in the last phase, when a panel of out is known
  // For a map that continues: after a panel of columns, in the last phase, the next call's v is known there.
  const T* next_v = nullptr;  // null if there is no next call
  bool has_product = false;   // whether the last call has continued, so Mv is known
};

template <class T>
class DualStep {
 public:
  DualStep(Phi<T> phi, Index columns) : phi(phi), rows(phi.rows), columns(columns) {}
  virtual ~DualStep() = default;

  // Divide the work. `wanted` are the columns of each thread if the caller has already cut them.
  virtual void share(int threads, const Ends* wanted) = 0;
  virtual int phases() const { return 1; }
  virtual bool reads_all_v() const { return false; }  // in the first phase
  virtual bool reads_all_y() const { return false; }  // in the later phases
  virtual bool writes_all_out() const { return false; }  // in the first phase, not only a thread's own columns
  virtual bool exchanges_scratch() const { return false; }  // later phases read what other threads noted in the first
  // Whether it calls what the vectors bring along with panels of rows, and with panels of columns.
  virtual bool carries_rows() const { return false; }
  virtual bool carries_columns() const { return false; }
  virtual bool continues() const { return false; }  // with the next product Mv while a panel of columns is near
  virtual bool calls_python() const { return false; }  // in a phase in which the first thread works alone, and may throw
  virtual void run(int phase, int rank, const Vectors<T>& vectors) = 0;
  virtual double work() const = 0;  // multiplications

  const Phi<T> phi;
  const Index rows, columns;
  int threads = 0;
  Ends column_ends;
  std::vector<std::vector<Range>> row_ranges;  // of each thread

 protected:
  Range own_columns(int rank) const { return {column_ends[rank], column_ends[rank + 1]}; }
  void set_columns(int count, const Ends* wanted) {
    threads = count;
    column_ends = wanted ? *wanted : even_columns(columns, count);
  }
  void set_rows(const Ends& ends) {
    row_ranges.assign(threads, {});
    for (int t = 0; t < threads; ++t) row_ranges[t].push_back({ends[t], ends[t + 1]});
  }
};

// Rows of a matrix that are used for both products while they are near; several of these may stand on one another.
template <class T>
class RowMap {
 public:
  explicit RowMap(Range rows) : rows(rows) {}
  virtual ~RowMap() = default;
  virtual Ends share(const Phi<T>& phi, int threads) const = 0;
  // y = prox(base + Mv) in a thread's own rows, and out += Mᵀy over them.
  virtual void pass(const Phi<T>& phi, Range own, const Vectors<T>& vectors, T* out) const = 0;
  virtual double work() const = 0;

  const Range rows;  // within y
};

// A kernel knows its rows from 0 on: `panel` is how many of them stay near, and `before` their entries before a row;
// `forward` sets y = base + Mv in the rows low … high − 1, and `backward` adds Mᵀy over them to out.
template <class T, class Kernel>
class Panels final : public RowMap<T> {
 public:
  Panels(Kernel kernel, Index rows, Index first_row) : RowMap<T>({first_row, first_row + rows}), kernel_(kernel) {}
  Ends share(const Phi<T>& phi, int threads) const override {
    return even_rows(phi, this->rows, threads, [this](Index i) {
      return kernel_.before(i - this->rows.start) + static_cast<double>(i);
    });
  }
  double work() const override { return 2 * kernel_.before(this->rows.stop - this->rows.start); }
  void pass(const Phi<T>& phi, Range own, const Vectors<T>& x, T* out) const override {
    const Index top = this->rows.start, height = kernel_.panel(), stop = phi.unit_at(own.stop);
    for (Index a = phi.unit_at(own.start), b; a < stop; a = b) {
      b = phi.panel_end(a, stop, height);
      const Index low = phi.row_of(a) - top, high = phi.row_of(b) - top;
      if (x.forward) {
        kernel_.forward(x.v, x.base + top, x.y + top, low, high);
        prox_units(phi, x.step, x.y, a, b);
      }
      if (x.backward) kernel_.backward(x.y + top, out, low, high);
    }
  }

 private:
  const Kernel kernel_;
};

// Each thread has its own rows, and a sum over them of the length of x; the first thread's stands in the result.
template <class T>
class ByRows final : public DualStep<T> {
 public:
  ByRows(Phi<T> phi, Index columns, std::vector<std::unique_ptr<RowMap<T>>> maps)
      : DualStep<T>(phi, columns), maps_(std::move(maps)) {}

  void share(int threads, const Ends* wanted) override {
    this->set_columns(threads, wanted);
    this->row_ranges.assign(threads, {});
    for (const auto& map : maps_) {
      const Ends ends = map->share(this->phi, threads);
      for (int t = 0; t < threads; ++t) this->row_ranges[t].push_back({ends[t], ends[t + 1]});
    }
    parts_.clear();
    for (int t = 1; t < threads; ++t) parts_.emplace_back(this->columns);
  }
  int phases() const override { return this->threads > 1 ? 2 : 1; }
  bool reads_all_v() const override { return this->threads > 1; }
  bool exchanges_scratch() const override { return this->threads > 1; }
  bool writes_all_out() const override { return this->threads > 1; }
  double work() const override {
    double sum = 0;
    for (const auto& map : maps_) sum += map->work();
    return sum;
  }

  void run(int phase, int rank, const Vectors<T>& vectors) override {
    if (phase == 0) {
      T* out = rank == 0 ? vectors.out : parts_[rank - 1].data();
      if (vectors.backward) std::fill(out, out + this->columns, T(0));
      for (std::size_t k = 0; k < maps_.size(); ++k) {
        maps_[k]->pass(this->phi, this->row_ranges[rank][k], vectors, out);
      }
      return;
    }
    if (!vectors.backward) return;
    const Range own = this->own_columns(rank);
    for (const Buffer<T>& part : parts_) {
      for (Index j = own.start; j < own.stop; ++j) vectors.out[j] += part.data()[j];
    }
  }

 private:
  std::vector<std::unique_ptr<RowMap<T>>> maps_;
  std::vector<Buffer<T>> parts_;
};

}  // namespace dapd
