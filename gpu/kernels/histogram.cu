// Histogram. Specialised by ITEM and MODE: 0 for bins by a digit of an unsigned item, 1 for bins of even width of
// integers, 2 of floats.
#include "ops.cuh"
#include "tile.cuh"

struct HistogramParams {
    const ITEM* input;
    u64 items;
    u64 lower_low, lower_high, upper_low, upper_high;
    u64 range, inverse;
    f64 scale;
    u32 shift, mask;
    u32 bins, copies;
    u64* counts;
};

/// The item's bin; `bins` or above for none.
TENON_DEVICE u32 bin_of(const HistogramParams& p, ITEM item) {
#if MODE == 0
    return (u32)(item >> p.shift) & p.mask;
#else
    ITEM lower = from_words<ITEM>(p.lower_low, p.lower_high), upper = from_words<ITEM>(p.upper_low, p.upper_high);
    if (!(item >= lower && item < upper)) return p.bins;
#if MODE == 1
    // (item - lower) * bins / range: an estimate by the inverse, at most one too low.
    u64 distance = (u64)item - (u64)lower;
    u32 bin = (u32)__umul64hi(distance, p.inverse);
    return bin + ((u128)(bin + 1) * p.range <= (u128)distance * p.bins);
#else
    return min_of((u32)(((f64)item - (f64)lower) * p.scale), p.bins - 1);
#endif
#endif
}

// Each block counts in shared memory, in several copies against contention: lane `l` adds to copy `l % copies`, and
// copies of a bin lie side by side in different banks. With `copies` 0 the bins do not fit and global memory counts.
TENON_KERNEL_BOUNDS(histogram, HistogramParams, tuning::REDUCE_THREADS, 2) {
    TENON_DYNAMIC_SHARED(u32, counts);
    u32 words = p.bins * p.copies, copy = lane_id() & (p.copies - 1);
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    if (p.copies == 0) {
        for_each_item<4>(p.input, p.items, [&](ITEM item) {
            u32 bin = bin_of(p, item);
            if (bin < p.bins) atomicAdd(&p.counts[bin], (u64)1);
        });
        return;
    }
    for_each_item<4>(p.input, p.items, [&](ITEM item) {
        u32 bin = bin_of(p, item);
        if (bin < p.bins) atomicAdd(&counts[bin * p.copies + copy], 1u);
    });
    __syncthreads();
    for (u32 bin = threadIdx.x; bin < p.bins; bin += blockDim.x) {
        u32 sum = 0;
        // Start at another copy in each lane: no two lanes of a warp meet in a bank.
        for (u32 i = 0; i < p.copies; i++) sum += counts[bin * p.copies + ((i + copy) & (p.copies - 1))];
        if (sum > 0) atomicAdd(&p.counts[bin], (u64)sum);
    }
}
