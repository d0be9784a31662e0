// Map: output[i] = expression(input[i]). Specialised by Input, Output and the generated header expression.cuh.
#include "tenon.cuh"

struct MapParams {
    const Input* input;
    Output* output;
    u64 items;
    u64 literals[8];
};

struct Literals {
    const u64* bits;
    template <class L>
    __device__ __forceinline__ L get(int i) const {
        L value;
        memcpy(&value, &bits[i], sizeof(L));
        return value;
    }
};

#include "expression.cuh"

constexpr u64 TILE = (u64)tuning::MAP_THREADS * tuning::MAP_ITEMS;

TENON_KERNEL_BOUNDS(map, MapParams, tuning::MAP_THREADS, 1) {
    Literals literal{p.literals};
    u64 tile = blockIdx.x * TILE;
    const Input* input = p.input + tile + threadIdx.x;
    Output* output = p.output + tile + threadIdx.x;
    if (tile + TILE <= p.items) {
        // All loads are in flight before the first use.
        Input x[tuning::MAP_ITEMS];
#pragma unroll
        for (u32 i = 0; i < tuning::MAP_ITEMS; i++) x[i] = input[i * tuning::MAP_THREADS];
#pragma unroll
        for (u32 i = 0; i < tuning::MAP_ITEMS; i++) output[i * tuning::MAP_THREADS] = expression(x[i], literal);
    } else {
        for (u32 i = 0; i < tuning::MAP_ITEMS; i++) {
            if (tile + i * tuning::MAP_THREADS + threadIdx.x < p.items) {
                output[i * tuning::MAP_THREADS] = expression(input[i * tuning::MAP_THREADS], literal);
            }
        }
    }
}
