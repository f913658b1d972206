// Vectors of the width that this file is compiled for, through the vector extensions of GCC and Clang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace dapd {

using Index = std::ptrdiff_t;

#if defined(__AVX512F__)
inline constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
inline constexpr int VECTOR_BYTES = 32;
#else
inline constexpr int VECTOR_BYTES = 16;
#endif

template <class T>
inline constexpr int LANES = VECTOR_BYTES / static_cast<int>(sizeof(T));

template <class T>
struct VectorTypes {
  using Lane = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;  // of a mask
  typedef T Vec __attribute__((vector_size(VECTOR_BYTES)));
  typedef Lane Mask __attribute__((vector_size(VECTOR_BYTES)));
  typedef float Narrow __attribute__((vector_size(VECTOR_BYTES / 2)));
};

template <class T>
using Vec = typename VectorTypes<T>::Vec;
template <class T>
using Mask = typename VectorTypes<T>::Mask;

template <class T>
inline Vec<T> all(T value) {
  return Vec<T>{} + value;
}

// Of a number or, lane by lane, of a vector.
template <class E>
inline E magnitude(E v) { return v < E{} ? -v : v; }

// LANES<T> entries from p on, which need not be aligned; float entries may become double.
template <class T, class S>
inline Vec<T> load(const S* p) {
  if constexpr (sizeof(S) == sizeof(T)) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
  } else {
    typename VectorTypes<T>::Narrow v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vec<T>);
  }
}

template <class T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T, int... K>
inline Mask<T> lane_numbers(std::integer_sequence<int, K...>) {
  return Mask<T>{K...};
}

// Which lanes are numbered `first` or higher.
template <class T>
inline Mask<T> lanes_from(Index first) {
  using Entry = std::remove_reference_t<decltype(std::declval<Mask<T>&>()[0])>;
  return lane_numbers<T>(std::make_integer_sequence<int, LANES<T>>{}) >= (Mask<T>{} + static_cast<Entry>(first));
}

// An address some entries before p. The array may begin after it, so this is not arithmetic on pointers, which must not
// leave an array; a masked load takes such an address and reads only from p on.
template <class S>
inline const S* back(const S* p, int entries) {
  return reinterpret_cast<const S*>(reinterpret_cast<std::uintptr_t>(p) - static_cast<std::uintptr_t>(entries) * sizeof(S));
}

// The lanes from `first` to `end` − 1 hold p[0], p[1], …, the others 0; nothing is read for those.
template <class T, class S>
inline Vec<T> load_some(const S* p, int first, int end) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  const S* lane_0 = back(p, first);
  const unsigned wanted = (end >= 32 ? 0u : 1u << end) - (1u << first);
  if constexpr (sizeof(S) == 8) {
    return reinterpret_cast<Vec<T>>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(wanted), lane_0));
  } else if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<Vec<T>>(_mm512_maskz_loadu_ps(static_cast<__mmask16>(wanted), lane_0));
  } else {
    return reinterpret_cast<Vec<T>>(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(wanted), lane_0)));
  }
#else
#if defined(__AVX2__)
  if constexpr (sizeof(S) == sizeof(T)) {
    const S* lane_0 = back(p, first);
    const auto wanted = reinterpret_cast<__m256i>(lanes_from<T>(first) & ~lanes_from<T>(end));
    if constexpr (sizeof(T) == 8) return reinterpret_cast<Vec<T>>(_mm256_maskload_pd(lane_0, wanted));
    if constexpr (sizeof(T) == 4) return reinterpret_cast<Vec<T>>(_mm256_maskload_ps(lane_0, wanted));
  }
#endif
  Vec<T> v{};
  for (int k = first; k < end; ++k) v[k] = p[k - first];
  return v;
#endif
}

// The sum of all lanes, in an order that is the same whichever lane comes first: halves are added until one is left.
template <class T, int Bytes>
struct Lanes {
  typedef T Vec __attribute__((vector_size(Bytes)));
  static T total(Vec v) {
    typename Lanes<T, Bytes / 2>::Vec half[2];
    std::memcpy(half, &v, sizeof v);
    return Lanes<T, Bytes / 2>::total(half[0] + half[1]);
  }
};

template <class T>
struct Lanes<T, static_cast<int>(sizeof(T))> {
  typedef T Vec;
  static T total(T v) { return v; }
};

template <class T>
inline T total(Vec<T> v) {
  return Lanes<T, VECTOR_BYTES>::total(v);
}

// out[j] = call(at) for start ≤ j < stop, with at(p) = p[j], a vector of entries at a time. The inputs may include out
// itself: a loop that the compiler vectorises would test for that, and then go entry by entry.
template <class T, class Call>
inline void entry_by_entry(T* out, Index start, Index stop, Call call) {
  Index j = start;
  for (; j + LANES<T> <= stop; j += LANES<T>) {
    store<T>(out + j, call([j](const T* p) { return load<T>(p + j); }));
  }
  for (; j < stop; ++j) out[j] = call([j](const T* p) { return p[j]; });
}

}  // namespace dapd
