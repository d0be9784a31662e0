// Literals of generated expressions: parameters, so that one compiled shape serves many values.
#pragma once
#include "tenon.cuh"

struct Literals {
    const u64* bits;
    template <class L>
    __device__ __forceinline__ L get(int i) const {
        L value;
        memcpy(&value, &bits[i], sizeof(L));
        return value;
    }
};
