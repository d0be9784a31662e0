// Block-level algorithms for blocks of one dimension, a multiple of 32 threads, at most 1024.
// Every thread of the block must call them together. `Storage` lives in shared memory (`TENON_SHARED`); a call
// ends with a barrier, so the storage may be used again at once.
#pragma once
#include "warp.cuh"

template <class T>
struct BlockStorage {
    T warps[33];
};

/// Every thread gets the reduction over the block.
template <class T, class Op>
TENON_DEVICE T block_reduce(T value, Op op, T identity, BlockStorage<T>& s) {
    value = warp_reduce(value, op);
    if (lane_id() == 0) s.warps[warp_id()] = value;
    __syncthreads();
    u32 warps = blockDim.x >> 5;
    if (warp_id() == 0) {
        T v = lane_id() < warps ? s.warps[lane_id()] : identity;
        v = warp_reduce(v, op);
        if (lane_id() == 0) s.warps[32] = v;
    }
    __syncthreads();
    T total = s.warps[32];
    __syncthreads();
    return total;
}

/// Exclusive scan over the block's threads in order; `total` gets the reduction over the block.
template <class T, class Op>
TENON_DEVICE T block_exclusive_scan(T value, Op op, T identity, BlockStorage<T>& s, T& total) {
    T inclusive = warp_inclusive_scan(value, op);
    u32 lane = lane_id();
    if (lane == 31) s.warps[warp_id()] = inclusive;
    T exclusive = shuffle(inclusive, lane == 0 ? 0 : lane - 1);
    if (lane == 0) exclusive = identity;
    __syncthreads();
    u32 warps = blockDim.x >> 5;
    if (warp_id() == 0) {
        T v = lane < warps ? s.warps[lane] : identity;
        T scanned = warp_inclusive_scan(v, op);
        T before = shuffle(scanned, lane == 0 ? 0 : lane - 1);
        if (lane == 31) s.warps[32] = scanned;
        if (lane < warps) s.warps[lane] = lane == 0 ? identity : before;
    }
    __syncthreads();
    T result = op(s.warps[warp_id()], exclusive);
    total = s.warps[32];
    __syncthreads();
    return result;
}
