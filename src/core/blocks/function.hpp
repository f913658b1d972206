// Gradients of f by blocks: f_i(z) = Σ ℓ(Az; d) + ½zᵀHz − cᵀz, each part of which may be absent.
#pragma once

#include "../loss.hpp"
#include "matrix.hpp"

namespace dapd {

template <class T>
struct BlockFunctions {
  const Loss* loss = nullptr;
  const T* e = nullptr;                 // of the pseudo-Huber loss
  const T* diagonal = nullptr;          // of H, its ridge included, along x
  const T* linear = nullptr;            // c, along x
  BlockMatrix<T> A;                     // a block without rows is the identity
  BlockMatrix<T> H;                     // what H has besides the diagonal; a block without rows is zero
  const T* target = nullptr;            // d or labels, block after block
  const std::int64_t* at = nullptr;     // where those of block i start; −1 if it has none
};

// The derivative of the loss at u, in place; the target may be null, except for logistic labels.
template <class T>
void slopes(Loss loss, T e, const T* target, T* __restrict u, Index size) {
  if (target && loss != Loss::LOGISTIC) {
    for (Index k = 0; k < size; ++k) u[k] -= target[k];
  }
  const bool labels = loss == Loss::LOGISTIC;
  Slope<T>{loss, labels ? target : &e, !labels}(u, 0, size);
}

// out = ∇f_i(z); `image` is scratch as long as A_i has rows, or z entries.
template <class T>
void block_grad(const BlockFunctions<T>& f, Index i, const T* z, T* __restrict out, T* __restrict image) {
  const Index size = f.A.columns(i), rows = static_cast<Index>(f.A.rows[i]);
  const T *diagonal = f.diagonal + f.A.first[i], *linear = f.linear + f.A.first[i];
  for (Index r = 0; r < size; ++r) out[r] = diagonal[r] * z[r] - linear[r];
  if (f.H.rows[i] > 0) block_dots(f.H, i, z, out, out);  // H is symmetric
  if (f.loss[i] == Loss::NONE) return;
  const T* target = f.at[i] < 0 ? nullptr : f.target + f.at[i];
  if (rows > 0) {
    std::fill(image, image + rows, T(0));
    block_add(f.A, i, z, image);
    slopes(f.loss[i], f.e[i], target, image, rows);
    block_dots(f.A, i, image, out, out);
  } else {
    std::copy(z, z + size, image);
    slopes(f.loss[i], f.e[i], target, image, size);
    for (Index r = 0; r < size; ++r) out[r] += image[r];
  }
}

// What all loops read.
template <class T>
struct BlockProblem {
  BlockMatrix<T> M;
  BlockFunctions<T> f;
  const T* b = nullptr;

  Index rows() const { return static_cast<Index>(M.rows[0]); }
  Index columns() const { return static_cast<Index>(M.first[M.blocks]); }
  Index image_size() const { return std::max(f.A.tallest(), M.widest()); }
};

struct BlockCounts {
  Index products = 0, gradients = 0;
};

}  // namespace dapd
