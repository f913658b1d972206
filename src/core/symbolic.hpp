// What a sparse LDLᵀ factorisation would cost: an approximate minimum degree ordering (Amestoy, Davis and Duff 1996)
// that counts the entries of L without storing them. dapd/newton/ordering.py is the same algorithm in Python.
//
// The quotient graph: an eliminated column is an element, with the variables that it couples. A variable has a list of
// elements and, after them, of variables; this list never gets longer, so it stays where it began. Variables with equal
// lists are merged into one, whose weight is their number. Rows with very many entries are left out and ordered last.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace dapd {

struct SymbolicCost {
  double fill = 0;   // entries of L below its diagonal
  double flops = 0;  // Σ (entries in a column)²
  bool complete = true;  // false if a limit was passed, so both are only what was counted until then

  // Adds `width` columns that are full among themselves, with `below` entries further down.
  void add(double width, double below) {
    fill += width * below + width * (width - 1) / 2;
    flops += width * below * below + width * (width - 1) * (below + (2 * width - 1) / 6);
  }
};

class MinimumDegree {
 public:
  using Node = std::int32_t;
  using Place = std::int64_t;

  // The pattern of a symmetric matrix; one triangle is enough.
  MinimumDegree(Node size, const Place* indptr, const Node* indices)
      : size_(size), start_(size + 1, 0), length_(size, 0), elements_(size, 0), weight_(size, 1), degree_(size, 0),
        dense_near_(size, 0), mark_(size, 0), alive_(size, 0), members_(size), head_(size + 1, NONE), next_(size, NONE),
        previous_(size, NONE), bucket_(size, NONE), hash_(size, 0) {
    read(indptr, indices);
    set_dense_aside();
    for (Node i = 0; i < size_; ++i) {
      if (weight_[i] > 0) insert(i, degree_[i] = length_[i]);
    }
  }

  SymbolicCost run(double fill_limit, double flops_limit) {
    SymbolicCost cost;
    while (left_ > 0) {
      const Node pivot = least();
      gather(pivot);
      measure_elements(pivot);
      update_lists(pivot);
      merge_alike(pivot);
      cost.add(eliminated_, static_cast<double>(reach_) + dense_near_[pivot]);
      finish(pivot);
      if (cost.fill > fill_limit || cost.flops > flops_limit) {
        cost.complete = false;
        return cost;
      }
    }
    cost.add(dense_, 0);
    return cost;
  }

 private:
  static constexpr Node NONE = -1;

  // The full pattern without its diagonal and without duplicates.
  void read(const Place* indptr, const Node* indices) {
    const auto each = [&](auto call) {
      for (Node i = 0; i < size_; ++i) {
        for (Place k = indptr[i]; k < indptr[i + 1]; ++k) {
          if (indices[k] != i) call(i, indices[k]);
        }
      }
    };
    each([&](Node i, Node j) { ++start_[i + 1], ++start_[j + 1]; });
    for (Node i = 0; i < size_; ++i) start_[i + 1] += start_[i];
    lists_.resize(start_[size_]);
    each([&](Node i, Node j) {
      lists_[start_[i] + length_[i]++] = j;
      lists_[start_[j] + length_[j]++] = i;
    });
    for (Node i = 0; i < size_; ++i) {
      keep(i, [&](Node j) { return std::exchange(mark_[j], i + 1) != i + 1; });
    }
    tag_ = size_ + 1;
  }

  template <class Test>
  void keep(Node i, Test test) {
    Node* first = lists_.data() + start_[i];
    length_[i] = static_cast<Node>(std::copy_if(first, first + length_[i], first, test) - first);
  }

  void set_dense_aside() {
    const double most = std::max(16.0, 4 * std::sqrt(static_cast<double>(size_)));
    for (Node i = 0; i < size_; ++i) {
      if (length_[i] > most) weight_[i] = 0, ++dense_;
    }
    left_ = size_ - dense_;
    if (dense_ == 0) return;
    for (Node i = 0; i < size_; ++i) {
      const Node before = length_[i];
      keep(i, [&](Node j) { return weight_[j] > 0; });
      dense_near_[i] = before - length_[i];
    }
  }

  // The lists of variables by degree, doubly linked.
  void insert(Node i, Node degree) {
    previous_[i] = NONE;
    next_[i] = head_[degree];
    if (next_[i] != NONE) previous_[next_[i]] = i;
    head_[degree] = i;
    lowest_ = std::min(lowest_, degree);
  }
  void remove(Node i) {
    if (next_[i] != NONE) previous_[next_[i]] = previous_[i];
    (previous_[i] == NONE ? head_[degree_[i]] : next_[previous_[i]]) = next_[i];
  }
  Node least() {
    while (head_[lowest_] == NONE) ++lowest_;
    const Node pivot = head_[lowest_];
    remove(pivot);
    return pivot;
  }

  // The variables that the pivot couples, directly or by its elements, which are absorbed. Their weights get a minus.
  void gather(Node pivot) {
    std::vector<Node>& members = members_[pivot];
    eliminated_ = weight_[pivot];
    left_ -= eliminated_;
    weight_[pivot] = 0;
    reach_ = 0;
    const auto take = [&](Node i) {
      if (weight_[i] <= 0) return;
      reach_ += weight_[i];
      weight_[i] = -weight_[i];
      remove(i);
      members.push_back(i);
    };
    const Node* list = lists_.data() + start_[pivot];
    for (Node k = 0; k < elements_[pivot]; ++k) {
      for (const Node i : members_[list[k]]) take(i);
      absorb(list[k], pivot);
    }
    for (Node k = elements_[pivot]; k < length_[pivot]; ++k) take(list[k]);
  }

  void absorb(Node element, Node pivot) {
    alive_[element] = 0;
    std::vector<Node>().swap(members_[element]);
    add_dense(pivot, dense_near_[element]);
  }
  void add_dense(Node i, Node count) { dense_near_[i] = std::min(dense_, dense_near_[i] + count); }

  // mark[e] − tag becomes the weight of what element e couples outside of the pivot's members.
  void measure_elements(Node pivot) {
    tag_ += size_ + 1;  // above every earlier mark
    for (const Node i : members_[pivot]) {
      const Node* list = lists_.data() + start_[i];
      for (Node k = 0; k < elements_[i]; ++k) {
        const Node e = list[k];
        if (!alive_[e]) continue;
        if (mark_[e] < tag_) mark_[e] = tag_ + degree_[e];
        mark_[e] += weight_[i];
      }
    }
  }

  // Takes out of the members' lists what is gone, puts the pivot into them, and bounds their degrees.
  void update_lists(Node pivot) {
    for (const Node i : members_[pivot]) {
      Node* list = lists_.data() + start_[i];
      Place degree = 0;
      std::uint64_t hash = 0;
      Node kept = 0;
      for (Node k = 0; k < elements_[i]; ++k) {
        const Node e = list[k];
        if (!alive_[e]) continue;
        if (mark_[e] == tag_) {
          absorb(e, pivot);  // all that it couples is the pivot's
          continue;
        }
        degree += mark_[e] - tag_;
        hash += e;
        list[kept++] = e;
      }
      const Node of_elements = kept;
      for (Node k = elements_[i]; k < length_[i]; ++k) {
        const Node j = list[k];
        if (weight_[j] <= 0) continue;  // gone, or coupled by the pivot
        degree += weight_[j];
        hash += j;
        list[kept++] = j;
      }
      if (kept == 0) {  // coupled by nothing else: eliminated with the pivot
        eliminated_ -= weight_[i];
        left_ += weight_[i];
        reach_ += weight_[i];
        weight_[i] = 0;
        add_dense(pivot, dense_near_[i]);
        continue;
      }
      // At least one entry of the list has gone: the pivot, or an element that the pivot absorbed.
      list[kept] = list[of_elements];
      list[of_elements] = list[0];
      list[0] = pivot;
      length_[i] = kept + 1;
      elements_[i] = of_elements + 1;
      degree_[i] = static_cast<Node>(std::min<Place>(degree_[i], degree));
      hash_[i] = static_cast<Node>(hash % static_cast<std::uint64_t>(size_));
    }
  }

  // Merges members with equal lists.
  void merge_alike(Node pivot) {
    tag_ += size_ + 1;  // above the marks of the elements
    for (const Node i : members_[pivot]) {
      if (weight_[i] < 0) next_[i] = std::exchange(bucket_[hash_[i]], i);
    }
    for (const Node member : members_[pivot]) {
      if (weight_[member] == 0) continue;
      for (Node i = std::exchange(bucket_[hash_[member]], NONE); i != NONE; i = next_[i]) {
        if (next_[i] != NONE) merge_into(i);
      }
    }
  }

  // Merges with i those further down in its bucket that have the same list.
  void merge_into(Node i) {
    ++tag_;
    const Node* own = lists_.data() + start_[i];
    for (Node k = 0; k < length_[i]; ++k) mark_[own[k]] = tag_;
    for (Node before = i, j = next_[i]; j != NONE; j = next_[j]) {
      const Node* list = lists_.data() + start_[j];
      const bool alike = length_[j] == length_[i] && elements_[j] == elements_[i] &&
                         std::all_of(list, list + length_[j], [&](Node k) { return mark_[k] == tag_; });
      if (!alike) {
        before = j;
        continue;
      }
      weight_[i] += weight_[j];
      weight_[j] = 0;
      add_dense(i, dense_near_[j]);
      next_[before] = next_[j];
    }
  }

  // Makes the pivot an element, and puts its members back by their new degrees.
  void finish(Node pivot) {
    std::vector<Node>& members = members_[pivot];
    members.erase(std::remove_if(members.begin(), members.end(), [&](Node i) { return weight_[i] == 0; }), members.end());
    members.shrink_to_fit();
    alive_[pivot] = !members.empty();
    degree_[pivot] = reach_;
    for (const Node i : members) {
      weight_[i] = -weight_[i];
      const Node most = static_cast<Node>(left_) - weight_[i];
      degree_[i] = static_cast<Node>(std::min<Place>(Place{degree_[i]} + reach_ - weight_[i], most));
      insert(i, degree_[i]);
    }
  }

  Node size_;
  std::vector<Place> start_;        // of each variable's list
  std::vector<Node> lists_;
  std::vector<Node> length_, elements_;  // of the list, and how many of its entries are elements
  std::vector<Node> weight_;        // 0: eliminated, merged or dense; negative: coupled by the pivot at hand
  std::vector<Node> degree_;        // bound on a variable's, the exact one of an element
  std::vector<Node> dense_near_;    // bound on the dense rows that the variable or element is coupled with
  std::vector<Place> mark_;
  std::vector<char> alive_;         // elements that no other has absorbed
  std::vector<std::vector<Node>> members_;  // the variables that an element couples
  std::vector<Node> head_, next_, previous_;  // variables by degree
  std::vector<Node> bucket_, hash_;  // members of the pivot with the same hash; next_ links them
  Place tag_ = 0;
  Node left_ = 0, dense_ = 0, lowest_ = 0;
  Node eliminated_ = 0, reach_ = 0;  // weight of the pivot, and of its members
};

}  // namespace dapd
