// Random blocks that depend only on the seed and the iteration, so a run is the same however it is cut into chunks.
// The plain twin is methods/block.py.
#pragma once

#include <cstdint>

#include "../vec.hpp"

namespace dapd {

// What a draw of one iteration is for.
enum Purpose : std::uint64_t { FOR_DUAL, FOR_PRIMAL, FOR_COIN };

// What decides the draws and the refreshes of a run, besides the iteration.
struct Plan {
  std::uint64_t key;
  bool shared;     // j = i
  Index period;    // iterations between exact refreshes of the maintained products
  Index rebase;    // iterations between those of powers that are kept apart, if there are any
};

// The finaliser of SplitMix64.
inline std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

// A block among 0, …, count − 1 (count < 2³²).
inline Index draw(std::uint64_t key, Index iteration, Purpose purpose, Index count) {
  constexpr std::uint64_t GOLDEN = 0x9E3779B97F4A7C15u, DRAWS = 4;  // counters kept for each iteration
  const std::uint64_t word = mix(key + GOLDEN * (DRAWS * static_cast<std::uint64_t>(iteration) + purpose));
  return static_cast<Index>(((word >> 32) * static_cast<std::uint64_t>(count)) >> 32);
}

// The blocks of one iteration.
struct Drawn {
  Index i;  // of the dual step
  Index j;  // of the primal step
};

inline Drawn draw_blocks(const Plan& plan, Index iteration, Index count) {
  const Index i = draw(plan.key, iteration, FOR_DUAL, count);
  return {i, plan.shared ? i : draw(plan.key, iteration, FOR_PRIMAL, count)};
}

}  // namespace dapd
