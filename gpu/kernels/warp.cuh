// Warp-level algorithms. All 32 lanes of the warp must call each of them together.
#pragma once
#include "tenon.cuh"

struct Sum {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Min {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const { return min_of(a, b); }
};
struct Max {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const { return max_of(a, b); }
};

/// Shuffles for any trivially copyable type whose size is a multiple of 4, or 1, 2 bytes.
template <class T>
TENON_DEVICE T shuffle(T value, u32 lane) {
    if constexpr (sizeof(T) < 4) {
        u32 word = 0;
        memcpy(&word, &value, sizeof(T));
        word = __shfl_sync(FULL_WARP, word, (int)lane);
        memcpy(&value, &word, sizeof(T));
        return value;
    } else {
        u32 words[sizeof(T) / 4];
        memcpy(words, &value, sizeof(T));
#pragma unroll
        for (int i = 0; i < (int)(sizeof(T) / 4); i++) words[i] = __shfl_sync(FULL_WARP, words[i], (int)lane);
        memcpy(&value, words, sizeof(T));
        return value;
    }
}
template <class T>
TENON_DEVICE T shuffle_xor(T value, u32 flip) { return shuffle(value, lane_id() ^ flip); }

/// Every lane gets the reduction over the warp.
template <class T, class Op>
TENON_DEVICE T warp_reduce(T value, Op op) {
#pragma unroll
    for (u32 d = 16; d > 0; d >>= 1) value = op(value, shuffle_xor(value, d));
    return value;
}

/// Inclusive scan over the warp's lanes; the operation need not commute.
template <class T, class Op>
TENON_DEVICE T warp_inclusive_scan(T value, Op op) {
#pragma unroll
    for (u32 d = 1; d < 32; d <<= 1) {
        u32 lane = lane_id();
        T before = shuffle(value, lane >= d ? lane - d : lane);
        if (lane >= d) value = op(before, value);
    }
    return value;
}
