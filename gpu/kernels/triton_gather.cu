// Spilled rows on their way back to the device: many short runs of pinned host memory into one chunk.
//
// A copy engine spends some 3 us on each copy, so that runs below a megabyte do not fill the bus; a kernel that reads
// host memory does, from runs of a few KiB on. Warps read whole lines of 128 bytes, the largest request over the bus.
//
// Macros: KEY, VALUE.
#include "tenon.cuh"

constexpr u32 THREADS = tuning::TRITON_GATHER_THREADS, ITEMS = tuning::TRITON_GATHER_ITEMS;
constexpr u64 LINE_BYTES = 128;

/// Consecutive rows of a run.
struct Piece {
    const KEY* keys;
    const VALUE* values;
    u64 to;    // first row in the chunk
    u64 rows;
};
struct GatherParams {
    const Piece* pieces;  // in host memory
    u64 count;
    KEY* keys;
    VALUE* values;
};

/// A block copies a column's rows; all its loads are in flight before the first store.
template <class T>
TENON_DEVICE void copy_rows(T* to, const T* from, u64 rows) {
    u64 before = (u64)from % LINE_BYTES / sizeof(T);
    for (u64 base = 0; base < before + rows; base += THREADS * ITEMS) {
        T values[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u64 at = base + i * THREADS + threadIdx.x;
            if (at >= before && at < before + rows) values[i] = from[at - before];
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u64 at = base + i * THREADS + threadIdx.x;
            if (at >= before && at < before + rows) to[at - before] = values[i];
        }
    }
}

TENON_KERNEL_BOUNDS(gather_runs, GatherParams, THREADS, 1) {
    for (u64 i = blockIdx.x; i < p.count; i += gridDim.x) {
        Piece piece = p.pieces[i];
        copy_rows(p.keys + piece.to, piece.keys, piece.rows);
        copy_rows(p.values + piece.to, piece.values, piece.rows);
    }
}
