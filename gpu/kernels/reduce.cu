// Reduce to one value. Specialised by ITEM (items), ACC (the accumulator), REDUCTION (Sum, Least, Greatest).
#include "block.cuh"
#include "ops.cuh"
#include "tile.cuh"

struct ReduceParams {
    const ITEM* input;
    ACC* output;
    ACC* partials;
    u32* finished;
    u64 items, identity_low, identity_high;
};

// Each block reduces its share to one partial; the last block to finish reduces the partials, in order.
TENON_KERNEL_BOUNDS(reduce, ReduceParams, tuning::REDUCE_THREADS, 2) {
    TENON_SHARED(BlockStorage<ACC>, storage);
    TENON_SHARED(u32, is_last);
    REDUCTION op;
    ACC identity = from_words<ACC>(p.identity_low, p.identity_high), sum = identity;
    for_each_item<4>(p.input, p.items, [&](ITEM item) { sum = op(sum, (ACC)item); });
    sum = block_reduce(sum, op, identity, storage);
    if (threadIdx.x == 0) {
        p.partials[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(p.finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    sum = identity;
    for (u32 i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum = op(sum, load_published(&p.partials[i]));
    sum = block_reduce(sum, op, identity, storage);
    if (threadIdx.x == 0) *p.output = sum;
}
