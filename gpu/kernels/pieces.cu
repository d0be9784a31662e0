// Pieces of registered host memory, each to its own place in device memory, read over the bus by the kernel.
#include "tenon.cuh"

struct Piece {
    const U64x2* source;
    U64x2* target;
    u64 bytes;
};
struct PiecesParams {
    const Piece* pieces;
    u64 count;
};

TENON_KERNEL_BOUNDS(pieces, PiecesParams, tuning::PIECES_THREADS, 1) {
    for (u64 at = blockIdx.x; at < p.count; at += gridDim.x) {
        const Piece piece = p.pieces[at];
        const u64 words = piece.bytes / 16;
        for (u64 first = threadIdx.x; first < words; first += (u64)blockDim.x * tuning::PIECES_WORDS) {
            U64x2 held[tuning::PIECES_WORDS];
#pragma unroll
            for (u32 i = 0; i < tuning::PIECES_WORDS; i++) {
                u64 word = first + (u64)i * blockDim.x;
                if (word < words) held[i] = piece.source[word];
            }
#pragma unroll
            for (u32 i = 0; i < tuning::PIECES_WORDS; i++) {
                u64 word = first + (u64)i * blockDim.x;
                if (word < words) piece.target[word] = held[i];
            }
        }
        for (u64 byte = words * 16 + threadIdx.x; byte < piece.bytes; byte += blockDim.x) {
            ((u8*)piece.target)[byte] = ((const u8*)piece.source)[byte];
        }
    }
}
