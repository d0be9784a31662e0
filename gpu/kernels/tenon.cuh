// The prelude of every kernel: types, builtins of the target, and small helpers.
// Block- and warp-level algorithms are in `warp.cuh` and `block.cuh`.
#pragma once

#ifdef TENON_SIM
#include "sim.cuh"
#else
#include "cuda.cuh"
#endif
#include "tuning.cuh"

#define TENON_DEVICE static __device__ __forceinline__
#define TENON_METHOD __device__ __forceinline__
#define FULL_WARP 0xffffffffu

template <class T>
TENON_DEVICE T min_of(T a, T b) { return b < a ? b : a; }
template <class T>
TENON_DEVICE T max_of(T a, T b) { return a < b ? b : a; }
template <class T>
TENON_DEVICE constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

/// Lane within the warp, for blocks of one dimension.
TENON_DEVICE u32 lane_id() { return threadIdx.x & 31; }
/// Warp within the block, for blocks of one dimension.
TENON_DEVICE u32 warp_id() { return threadIdx.x >> 5; }
/// The lanes before this one.
TENON_DEVICE u32 lanes_below() { return (1u << lane_id()) - 1; }
/// This thread's place in the grid; 64 bits, for inputs above 2^31 items.
TENON_DEVICE u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
/// Threads in the grid: the stride of a grid-stride loop.
TENON_DEVICE u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

/// `N` values moved by one access: `N * sizeof(T)` is 2, 4, 8 or 16 bytes and the address a multiple of that.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T v[N];
    __device__ __forceinline__ T& operator[](int i) { return v[i]; }
    __device__ __forceinline__ const T& operator[](int i) const { return v[i]; }
};
template <int N, class T>
TENON_DEVICE Pack<T, N> load_pack(const T* address) {
    return *reinterpret_cast<const Pack<T, N>*>(address);
}
template <int N, class T>
TENON_DEVICE void store_pack(T* address, Pack<T, N> value) {
    *reinterpret_cast<Pack<T, N>*>(address) = value;
}
/// Whether an address is a multiple of `bytes` (a power of two).
TENON_DEVICE bool is_aligned(const void* address, u64 bytes) { return ((u64)address & (bytes - 1)) == 0; }

/// Same bits, other type.
template <class To, class From>
TENON_DEVICE To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}
