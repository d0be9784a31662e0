// Gather and scatter of wide records: consecutive threads move consecutive pieces of a record (Patidar 2009,
// section 4.1). Specialised by PIECE (1 to 16 bytes), PIECES of a record, and INDEX.
#include "tile.cuh"

struct WideGatherParams {
    const PIECE* source;
    const INDEX* indexes;
    u64 items, source_items;
    PIECE* output;
};
struct WideScatterParams {
    const PIECE* input;
    const INDEX* indexes;
    u64 items, output_items;
    PIECE* output;
};

constexpr u32 THREADS = tuning::WIDE_THREADS, MOVES = tuning::WIDE_PIECES;

/// The record and the piece within it that each of this thread's moves is about. Records are numbered from the
/// block's first, so that the divisions have 32 bits.
struct Moves {
    u64 first_record;
    u32 offset;
    TENON_METHOD Moves() {
        u64 first = (u64)blockIdx.x * (THREADS * MOVES);
        first_record = first / PIECES;
        offset = (u32)(first - first_record * PIECES) + threadIdx.x;
    }
    TENON_METHOD u64 record(u32 i) const { return first_record + (offset + i * THREADS) / PIECES; }
    TENON_METHOD u32 piece(u32 i) const { return (offset + i * THREADS) % PIECES; }
};

TENON_KERNEL_BOUNDS(gather_wide, WideGatherParams, tuning::WIDE_THREADS, 1) {
    Moves moves;
    u64 indexes[MOVES];
#pragma unroll
    for (u32 i = 0; i < MOVES; i++) {
        indexes[i] = moves.record(i) < p.items ? (u64)p.indexes[moves.record(i)] : ~(u64)0;
    }
    typename BitsOf<sizeof(PIECE)>::type pieces[MOVES];
#pragma unroll
    for (u32 i = 0; i < MOVES; i++) {
        pieces[i] = {};
        if (indexes[i] < p.source_items) {
            const PIECE* from = p.source + indexes[i] * PIECES + moves.piece(i);
            pieces[i] = *reinterpret_cast<const typename BitsOf<sizeof(PIECE)>::type*>(from);
        }
    }
#pragma unroll
    for (u32 i = 0; i < MOVES; i++) {
        if (moves.record(i) < p.items) {
            PIECE* to = p.output + moves.record(i) * PIECES + moves.piece(i);
            *reinterpret_cast<typename BitsOf<sizeof(PIECE)>::type*>(to) = pieces[i];
        }
    }
}

TENON_KERNEL_BOUNDS(scatter_wide, WideScatterParams, tuning::WIDE_THREADS, 1) {
    Moves moves;
    u64 indexes[MOVES];
    typename BitsOf<sizeof(PIECE)>::type pieces[MOVES];
#pragma unroll
    for (u32 i = 0; i < MOVES; i++) {
        indexes[i] = ~(u64)0;
        if (moves.record(i) < p.items) {
            indexes[i] = (u64)p.indexes[moves.record(i)];
            const PIECE* from = p.input + moves.record(i) * PIECES + moves.piece(i);
            pieces[i] = *reinterpret_cast<const typename BitsOf<sizeof(PIECE)>::type*>(from);
        }
    }
#pragma unroll
    for (u32 i = 0; i < MOVES; i++) {
        if (indexes[i] < p.output_items) {
            PIECE* to = p.output + indexes[i] * PIECES + moves.piece(i);
            *reinterpret_cast<typename BitsOf<sizeof(PIECE)>::type*>(to) = pieces[i];
        }
    }
}
