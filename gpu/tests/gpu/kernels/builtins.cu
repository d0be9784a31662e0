// Exercises the builtins that kernels use; each kernel writes what a plain loop on the host recomputes.
#include "block.cuh"

struct CheckParams {
    const u64* input;
    u64* output;
    u64 items, extra;
};

// Warp collectives: one row of 16 words a thread.
TENON_KERNEL(warp_row, CheckParams) {
    u64 at = global_thread();
    u32 x = (u32)p.input[at];
    u64* row = p.output + at * 16;
    row[0] = __shfl_sync(FULL_WARP, p.input[at], 5);
    row[1] = __shfl_up_sync(FULL_WARP, x, 3);
    row[2] = __shfl_down_sync(FULL_WARP, x, 7);
    row[3] = __shfl_xor_sync(FULL_WARP, x, 9);
    row[4] = __ballot_sync(FULL_WARP, x & 1);
    row[5] = __match_any_sync(FULL_WARP, x % 5);
    row[6] = (u64)__any_sync(FULL_WARP, x % 64 == 1) << 1 | __all_sync(FULL_WARP, x % 64 != 1);
    row[7] = warp_reduce(x, Max());
    row[8] = warp_inclusive_scan(x, Sum());
    // Half warps apart, in different branches.
    if (lane_id() < 16) row[9] = __shfl_sync(0x0000ffffu, x, 2);
    else row[9] = __shfl_sync(0xffff0000u, x, 20);
    row[10] = __popcll(p.input[at]) << 16 | __clzll((i64)p.input[at]) << 8 | __ffs((i32)x);
    row[11] = (u64)__brev(x) << 32 | __umulhi(x, 0x9e3779b9u);
    u128 wide = shuffle((u128)p.input[at] << 64 | x, 31);
    row[12] = (u64)(wide >> 64) ^ (u64)wide;
    row[13] = __shfl_sync(FULL_WARP, x, 1, 8);
    row[14] = lane_id() << 8 | warp_id();
    row[15] = __umul64hi(p.input[at], 0x9e3779b97f4a7c15ull);
}

// Block scan and reduce: exclusive prefix, then the total.
TENON_KERNEL(block_scan, CheckParams) {
    TENON_SHARED(BlockStorage<u64>, storage);
    u64 at = global_thread();
    u64 total;
    u64 before = block_exclusive_scan(p.input[at], Sum(), (u64)0, storage, total);
    u64 largest = block_reduce(p.input[at], Max(), (u64)0, storage);
    int odd = __syncthreads_count(p.input[at] & 1);
    int any = __syncthreads_or(p.input[at] == largest), all = __syncthreads_and(p.input[at] <= largest);
    p.output[at * 4] = before;
    p.output[at * 4 + 1] = total;
    p.output[at * 4 + 2] = largest;
    p.output[at * 4 + 3] = (u64)odd << 2 | (any != 0) << 1 | (all != 0);
}

// Every block waits for the one before it: a chained prefix sum over blocks, in ticket order of blockIdx.
TENON_KERNEL(chain, CheckParams) {
    TENON_SHARED(u64, carried);
    u32* flags = (u32*)(p.output + gridDim.x);
    if (threadIdx.x == 0) {
        u64 sum = 0;
        if (blockIdx.x > 0) {
            while (ld_acquire(&flags[blockIdx.x - 1]) == 0) tenon_spin_pause();
            sum = ld_relaxed(&p.output[blockIdx.x - 1]);
        }
        carried = sum + p.input[blockIdx.x];
        st_relaxed(&p.output[blockIdx.x], carried);
        st_release(&flags[blockIdx.x], 1u);
    }
    __syncthreads();
}

// Dynamic shared memory, atomics on shared and global memory: a histogram of `extra` bins.
TENON_KERNEL(bins, CheckParams) {
    TENON_DYNAMIC_SHARED(u32, counts);
    for (u32 i = threadIdx.x; i < p.extra; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (u64 i = global_thread(); i < p.items; i += grid_threads()) atomicAdd(&counts[p.input[i] % p.extra], 1u);
    __syncthreads();
    for (u32 i = threadIdx.x; i < p.extra; i += blockDim.x) atomicAdd(&p.output[i], (u64)counts[i]);
}
