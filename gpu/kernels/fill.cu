// Fill and iota. Specialised by T, an unsigned type.
#include "tenon.cuh"

struct FillParams {
    T* output;
    u64 items, value_low, value_high;
};
struct IotaParams {
    T* output;
    u64 items, start;
};

constexpr u64 TILE = (u64)tuning::MAP_THREADS * tuning::MAP_ITEMS;

TENON_KERNEL_BOUNDS(fill, FillParams, tuning::MAP_THREADS, 1) {
    T value = (T)((u128)p.value_high << 64 | p.value_low);
    u64 tile = blockIdx.x * TILE;
#pragma unroll
    for (u32 i = 0; i < tuning::MAP_ITEMS; i++) {
        u64 at = tile + i * tuning::MAP_THREADS + threadIdx.x;
        if (at < p.items) p.output[at] = value;
    }
}

TENON_KERNEL_BOUNDS(iota, IotaParams, tuning::MAP_THREADS, 1) {
    u64 tile = blockIdx.x * TILE;
#pragma unroll
    for (u32 i = 0; i < tuning::MAP_ITEMS; i++) {
        u64 at = tile + i * tuning::MAP_THREADS + threadIdx.x;
        if (at < p.items) p.output[at] = (T)(p.start + at);
    }
}
