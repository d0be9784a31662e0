// The reductions by name, with the order of floats that SQL wants: NaN is the greatest value.
#pragma once
#include "tile.cuh"

struct Least {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const { return b < a || a != a ? b : a; }
};
struct Greatest {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const { return a < b || b != b ? b : a; }
};

/// Whether `a` comes before `b` in a sorted array.
template <class T>
TENON_DEVICE bool sorts_before(T a, T b) { return a < b || (b != b && a == a); }

/// The value whose bits are the low bytes of these words.
template <class T>
TENON_DEVICE T from_words(u64 low, u64 high) {
    u64 words[2] = {low, high};
    T value;
    memcpy(&value, words, sizeof(T));
    return value;
}
/// Reads what another block of this launch has written, after a fence.
template <class T>
TENON_DEVICE T load_published(const T* address) {
    if constexpr (sizeof(T) == 16) {
        return from_words<T>(ld_relaxed((const u64*)address), ld_relaxed((const u64*)address + 1));
    } else {
        typedef typename BitsOf<sizeof(T)>::type Bits;
        return bit_cast<T>(ld_relaxed((const Bits*)address));
    }
}
