// Threads that run the same steps side by side and meet between them; and the pool that lends them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace dapd {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What two threads write to must not share a cache line, and processors fetch lines in pairs.
struct alignas(128) Counter {
  std::atomic<std::uint64_t> value{0};
};

class Team {
 public:
  explicit Team(int threads) : threads(threads), counts_(threads) {}

  // Wait until all threads have come here. Returns false if the team was told to halt instead.
  bool meet(int rank) {
    // release: what this thread wrote before is visible to whoever sees the count; acquire below is the other half
    const std::uint64_t turn = counts_[rank].value.load(std::memory_order_relaxed) + 1;
    counts_[rank].value.store(turn, std::memory_order_release);
    for (int other = 0; other < threads; ++other) {
      for (int spins = 0; counts_[other].value.load(std::memory_order_acquire) < turn; ++spins) {
        if (spins < SPINS) {
          relax();
        } else {
          // acquire: pairs with the release in `halt`. Whoever halted may have come here first and have been seen too
          // late, so its count is looked at once more: then this meeting took place, and the next one will not.
          if (halted_.load(std::memory_order_acquire) && counts_[other].value.load(std::memory_order_acquire) < turn) {
            return false;
          }
          std::this_thread::yield();
        }
      }
    }
    return true;
  }
  void halt() { halted_.store(true, std::memory_order_release); }

  const int threads;

 private:
  static constexpr int SPINS = 4000;  // looks at the others before giving the core away
  std::vector<Counter> counts_;
  std::atomic<bool> halted_{false};
};

// Threads that stay for the next call. One call has them at a time; a second one runs on its own thread instead.
class Pool {
 public:
  static Pool& instance() {
    static Pool* pool = new Pool;  // never destroyed: its threads may be waiting when the process ends
#if defined(__unix__) || defined(__APPLE__)
    static pid_t owner = getpid();
    if (owner != getpid()) {  // a forked child has none of its parent's threads
      pool = new Pool;
      owner = getpid();
    }
#endif
    return *pool;
  }

  // Call work(0) … work(threads − 1) at the same time; false if another call has the threads.
  bool run(int threads, const std::function<void(int)>& work) {
    const std::unique_lock<Busy> mine(busy_, std::try_to_lock);
    if (!mine) return false;
    for (const std::uint64_t now = job_.load(std::memory_order_relaxed); workers_ < threads - 1;) {
      std::thread([this, rank = workers_ + 1, now] { serve(rank, now); }).detach();
      ++workers_;  // only now: if there can be no more threads, this throws
    }
    // relaxed: the mutex below orders it before any worker's count
    running_.store(threads - 1, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      threads_ = threads;
      job_.fetch_add(1, std::memory_order_relaxed);  // workers look again under the mutex
    }
    wake_.notify_all();
    work(0);
    for (int spins = 0; running_.load(std::memory_order_acquire) > 0; ++spins) {  // acquire: their results are ours
      spins < SPINS ? relax() : std::this_thread::yield();
    }
    return true;
  }

 private:
  // A mutex must not be tried by the thread that has it, and Python that a step calls may take steps of another problem.
  struct Busy {
    std::atomic<bool> taken{false};
    bool try_lock() { return !taken.exchange(true, std::memory_order_acquire); }  // acquire: the last call is over
    void unlock() { taken.store(false, std::memory_order_release); }              // release: the other half
  };

  static constexpr int SPINS = 2000;  // of a thread that waits for the next call, or for the others

  void serve(int rank, std::uint64_t seen) {
    while (true) {
      for (int spins = 0; spins < SPINS && job_.load(std::memory_order_relaxed) == seen; ++spins) relax();
      const std::function<void(int)>* work = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return job_.load(std::memory_order_relaxed) != seen; });
        seen = job_.load(std::memory_order_relaxed);
        if (rank < threads_) work = work_;
      }
      if (work) {
        (*work)(rank);
        running_.fetch_sub(1, std::memory_order_release);  // release: the caller sees what was written
      }
    }
  }

  Busy busy_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> job_{0};
  std::atomic<int> running_{0};
  int workers_ = 0, threads_ = 0;
  const std::function<void(int)>* work_ = nullptr;
};

}  // namespace dapd
