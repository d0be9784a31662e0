// Segmented reduce, balanced for any mix of segment lengths. Specialised by ITEM, ACC, INDEX (of offsets),
// REDUCTION and SEGMENT_STEPS of a thread.
//
// Items and segment ends are one merged sequence: an item adds to the running value, an end emits it. Every thread
// takes the same number of steps of that sequence (merge path: Merrill and Garland 2016, "Merge-based Parallel Sparse
// Matrix-Vector Multiplication"), so that neither one huge segment nor millions of empty ones unbalance the work.
#include "block.cuh"
#include "lookback.cuh"
#include "merge_path.cuh"
#include "ops.cuh"

struct SegmentedParams {
    const ITEM* input;
    const INDEX* offsets;
    u64 items, segments, identity_low, identity_high;
    u64* splits;
    u64 tiles;
    u64* states;
    ACC* output;
};

constexpr u32 THREADS = tuning::SEGMENT_THREADS, STEPS = SEGMENT_STEPS;
constexpr u32 TILE = THREADS * STEPS;

/// First item and number of items of all segments, within the input whatever the offsets say.
struct Covered {
    u64 base, items;
    TENON_METHOD explicit Covered(const SegmentedParams& p) {
        base = min_of<u64>(p.offsets[0], p.items);
        u64 end = min_of<u64>(p.offsets[p.segments], p.items);
        items = end > base ? end - base : 0;
    }
};

// splits[t]: segments that end before tile t; splits[tiles]: all of them.
TENON_KERNEL(segment_splits, SegmentedParams) {
    u64 tile = global_thread();
    if (tile > p.tiles) return;
    Covered c(p);
    u64 steps = min_of(tile * TILE, p.segments + c.items);
    p.splits[tile] =
        segments_within<u64>(steps, p.segments, c.items, [&](u64 s) { return (u64)p.offsets[s + 1] - c.base; });
}

/// A running value, and whether a segment ended on the way to it.
struct Running {
    ACC value;
    u32 ended;
    u32 padding[sizeof(ACC) > 8 ? 3 : sizeof(ACC) > 4 ? 1 : 2];
};
struct Continue {
    __device__ __forceinline__ Running operator()(const Running& a, const Running& b) const {
        Running r = b;
        if (!b.ended) r.value = REDUCTION()(a.value, b.value);
        r.ended = a.ended | b.ended;
        return r;
    }
};

TENON_KERNEL_BOUNDS(segmented_reduce, SegmentedParams, tuning::SEGMENT_THREADS, 4) {
    TENON_SHARED(BlockStorage<Running>, storage);
    TENON_SHARED(ACC, carried);
    TENON_SHARED_ARRAY(ITEM, items, TILE);
    TENON_SHARED_ARRAY(u32, ends, TILE + 1);
    REDUCTION op;
    ACC identity = from_words<ACC>(p.identity_low, p.identity_high);
    Covered c(p);
    // The host counts tiles for all items of the input; the last ones may have nothing to do.
    u64 all_steps = p.segments + c.items, step = min_of(blockIdx.x * (u64)TILE, all_steps);
    u64 end_step = min_of(step + TILE, all_steps), first_segment = p.splits[blockIdx.x];
    u64 first_item = step - first_segment, last_segment = max_of(first_segment, p.splits[blockIdx.x + 1]);
    u32 segments = (u32)min_of(last_segment - first_segment, end_step - step);
    u32 item_count = (u32)(end_step - step) - segments;

    const ITEM* input = p.input + c.base + first_item;
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < item_count) items[at] = input[at];
        else if (at - item_count < segments) {
            u32 s = at - item_count;
            ends[s] = (u32)((u64)p.offsets[first_segment + s + 1] - c.base - first_item);
        }
    }
    if (threadIdx.x == 0) ends[segments] = 0xffffffffu;
    __syncthreads();

    // This thread's steps: the running value at their end, with what ended first kept for the carry.
    u32 my_step = min_of(threadIdx.x * STEPS, item_count + segments);
    u32 my_end = min_of(my_step + STEPS, item_count + segments);
    u32 my_segment = segments_within<u32>(my_step, segments, item_count, [&](u32 s) { return ends[s]; });
    u32 segment = my_segment, item = my_step - segment;
    Running running = {};
    running.value = identity;
    ACC first_value = identity;
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        if (my_step + i < my_end) {
            if (item < ends[segment]) {
                running.value = op(running.value, (ACC)items[item++]);
            } else {
                if (!running.ended) first_value = running.value;
                else p.output[first_segment + segment] = running.value;
                running.ended = 1;
                running.value = identity;
                segment++;
            }
        }
    }
    Running none = {}, total;
    none.value = identity;
    Running before = block_exclusive_scan(running, Continue(), none, storage, total);

    // Across tiles: where a segment ended, what follows it is final, whatever came before.
    TileStates<ACC> states{p.states};
    if (warp_id() == 0) {
        if (total.ended && lane_id() == 0) states.publish(blockIdx.x, total.value, TILE_PREFIX);
        ACC carry = identity;
        if (!total.ended) {
            carry = tile_prefix(states, blockIdx.x, total.value, op, identity);
        } else if (blockIdx.x > 0) {
            carry = prefix_before(states, blockIdx.x, op, identity);
        }
        if (lane_id() == 0) carried = carry;
    }
    __syncthreads();
    if (running.ended) {
        if (!before.ended) before.value = op(carried, before.value);
        p.output[first_segment + my_segment] = op(before.value, first_value);
    }
}
