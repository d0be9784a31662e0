// Copies from registered host memory: a block takes one piece after the other.
#include "tenon.cuh"

// An address in host memory and one in device memory, both multiples of 16, and bytes.
struct UploadPiece {
    u64 from, to, bytes;
};
struct UploadParams {
    const UploadPiece* pieces;
    u64 count;
};

constexpr u32 THREADS = tuning::UPLOAD_THREADS, PACKS = tuning::UPLOAD_PACKS;

TENON_KERNEL_BOUNDS(upload, UploadParams, THREADS, 1) {
    for (u64 piece = blockIdx.x; piece < p.count; piece += gridDim.x) {
        UploadPiece own = p.pieces[piece];
        const u128* from = (const u128*)own.from;
        u128* to = (u128*)own.to;
        u64 packs = own.bytes / 16, at = threadIdx.x;
        for (; at + (PACKS - 1) * THREADS < packs; at += PACKS * THREADS) {
            u128 values[PACKS];
#pragma unroll
            for (u32 i = 0; i < PACKS; i++) values[i] = from[at + i * THREADS];
#pragma unroll
            for (u32 i = 0; i < PACKS; i++) to[at + i * THREADS] = values[i];
        }
        for (; at < packs; at += THREADS) to[at] = from[at];
        u64 rest = packs * 16 + threadIdx.x;
        if (rest < own.bytes) ((u8*)own.to)[rest] = ((const u8*)own.from)[rest];
    }
}
