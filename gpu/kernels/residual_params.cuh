// What a generated join condition reads, and the condition: `bool residual(p, build_row, probe_row)`.
#pragma once
#include "tenon.cuh"

struct ResidualParams {
    const u8* buffers[48];
    u64 literals[32];
    u32* failed;

    /// Says that the condition has no value on some pair: the host must decide.
    TENON_METHOD void fail() const { *failed = 1; }

    /// Value `row` of the buffer of `T`.
    template <class T>
    TENON_METHOD T value(int buffer, u64 row) const { return reinterpret_cast<const T*>(buffers[buffer])[row]; }
    /// Bit `bit`, least significant first; a null buffer has all bits set.
    TENON_METHOD bool bit(int buffer, u64 bit) const {
        return !buffers[buffer] || (buffers[buffer][bit >> 3] >> (bit & 7) & 1);
    }
    template <class L>
    TENON_METHOD L literal(int i) const {
        L value;
        memcpy(&value, &literals[i], sizeof(L));
        return value;
    }
};

#include "residual.cuh"
