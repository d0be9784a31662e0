// One-sweep radix sort and split (Adinets & Merrill 2022; split: Patidar & Narayanan 2009, section 3).
//
//   radix_histogram  one read of the keys counts every digit of every pass
//   radix_plan       first place of each bin of each pass; passes where all keys share the digit are dropped
//   radix_pass       one read and one write of the data, in tiles:
//     load -> rank within the warp by match -> counts of the tile -> publish -> exchange through shared memory
//          -> look back over the tiles before (per bin) -> write runs of equal digits, coalesced
//
// Macros: KEY, KEY_FLOAT, PAYLOAD_BYTES (0, 4, 8, 16), OFFSET (u32 below 2^32 items, else u64), RADIX_BITS, STABLE,
// SCATTER_BYTES (0; 4 or 8: write each item's place instead of the items), THREADS, ITEMS, BLOCKS (a multiprocessor).
#include "radix_key.cuh"
#include "block.cuh"

#if PAYLOAD_BYTES == 4
typedef u32 Payload;
#elif PAYLOAD_BYTES == 8
typedef u64 Payload;
#else
typedef u128 Payload;
#endif
#if SCATTER_BYTES == 4
typedef u32 Place;
#else
typedef u64 Place;
#endif

constexpr u32 BINS = 1u << RADIX_BITS;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 TILE = THREADS * ITEMS;
static_assert(THREADS >= BINS && THREADS >= 32 && THREADS % 32 == 0, "a thread a bin");
static_assert(TILE < 65536, "ranks take 16 bits");

/// Copies of a block's counters, by lane: equal keys in one warp do not all meet at one counter.
constexpr u32 COPIES = tuning::RADIX_HISTOGRAM_COPIES;

/// What `radix_plan` decides for one pass.
struct PassPlan {
    u32 order;   // among the passes that run; SKIPPED: the data stays where it is
    u32 source;  // 0 input, 1 temporary, 2 output
    u32 target;
    u32 unused;
};
constexpr u32 SKIPPED = 0xffffffffu;

struct HistogramParams {
    const KEY* keys;
    u64 items;
    u64* counts;  // [passes][BINS]
    CodeParams code;
    u32 passes, first_bit, last_bit, unused;
};
struct PlanParams {
    const u64* counts;  // [passes][BINS]
    u64* bases;         // [passes][2][BINS]
    u32* trivial;       // [passes], then a ticket; zeroed
    PassPlan* plan;     // [passes]
    u64* offsets;  // null, or [offset_count]: first places of the bins of pass 0, then the number of items
    u64 items;
    u32 passes, in_place, offset_count, unused;
};
struct PassParams {
    const KEY* keys_in;
    KEY* keys_temporary;
    KEY* keys_out;
    const Payload* payload_in;  // null: the item's number
    Payload* payload_temporary;
    Payload* payload_out;
    Place* places;
    const PassPlan* plan;
    const u64* bases_in;
    u64* bases_out;
    u32* states;  // [2][tiles_max][BINS]; those of the first launch zeroed
    u32* ticket;  // zeroed
    u64 first_item, items;  // of this launch
    CodeParams code;
    u32 tiles, tiles_max, pass, portion, portions, unused;
};

TENON_KERNEL_BOUNDS(radix_histogram, HistogramParams, tuning::RADIX_HISTOGRAM_THREADS, 1) {
    TENON_DYNAMIC_SHARED(u32, bins);  // [passes][BINS][COPIES]
    constexpr u32 threads = tuning::RADIX_HISTOGRAM_THREADS, batch = tuning::RADIX_HISTOGRAM_ITEMS;
    u32 counters = p.passes * BINS * COPIES;
    for (u32 i = threadIdx.x; i < counters; i += threads) bins[i] = 0;
    __syncthreads();
    u32* mine = bins + lane_id() % COPIES;
    for (u64 start = (u64)blockIdx.x * (threads * batch); start < p.items; start += (u64)gridDim.x * (threads * batch)) {
        Code codes[batch];
        if (start + threads * batch <= p.items) {
            KEY keys[batch];
#pragma unroll
            for (u32 i = 0; i < batch; i++) keys[i] = p.keys[start + i * threads + threadIdx.x];
#pragma unroll
            for (u32 i = 0; i < batch; i++) codes[i] = code_of(keys[i], p.code);
            u32 shift = p.first_bit;
            for (u32 pass = 0; pass < p.passes; pass++, shift += RADIX_BITS) {
                u32 mask = (1u << min_of<u32>(RADIX_BITS, p.last_bit - shift)) - 1;
#pragma unroll
                for (u32 i = 0; i < batch; i++) {
                    atomicAdd(&mine[(pass * BINS + digit_of(codes[i], shift, mask)) * COPIES], 1u);
                }
            }
        } else {
            for (u64 at = start + threadIdx.x; at < p.items; at += threads) {
                Code code = code_of(p.keys[at], p.code);
                u32 shift = p.first_bit;
                for (u32 pass = 0; pass < p.passes; pass++, shift += RADIX_BITS) {
                    u32 mask = (1u << min_of<u32>(RADIX_BITS, p.last_bit - shift)) - 1;
                    atomicAdd(&mine[(pass * BINS + digit_of(code, shift, mask)) * COPIES], 1u);
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < p.passes * BINS; i += threads) {
        u32 count = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++) count += bins[i * COPIES + c];
        if (count) atomicAdd(&p.counts[i], (u64)count);
    }
}

/// One block a pass, BINS threads; the last block to finish decides which passes run and between which buffers.
TENON_KERNEL(radix_plan, PlanParams) {
    TENON_SHARED(BlockStorage<u64>, storage);
    TENON_SHARED_ARRAY(u32, last, 1);
    u32 pass = blockIdx.x, bin = threadIdx.x;
    u64 count = bin < BINS ? p.counts[(u64)pass * BINS + bin] : 0, total;
    u64 base = block_exclusive_scan(count, Sum(), (u64)0, storage, total);
    if (bin < BINS) p.bases[(u64)pass * 2 * BINS + bin] = base;
    if (p.offsets && pass == 0) {
        if (bin < min_of<u32>(BINS, p.offset_count)) p.offsets[bin] = base;
        if (bin == 0 && p.offset_count > BINS) p.offsets[BINS] = p.items;
    }
    int all_equal = __syncthreads_or(count == p.items);
    if (threadIdx.x == 0) {
        st_relaxed(&p.trivial[pass], all_equal ? 1u : 0u);
        __threadfence();
        last[0] = atomicAdd(&p.trivial[p.passes], 1u) + 1 == p.passes;
    }
    __syncthreads();
    if (!last[0] || threadIdx.x != 0) return;
    __threadfence();
    u32 active = 0;
    for (u32 i = 0; i < p.passes; i++) active += ld_relaxed(&p.trivial[i]) ? 0 : 1;
    // A trivial pass is a copy. Out of place at least one must run; in place the host expects the data where an
    // odd or even number of passes, as `passes` is, leaves it.
    u32 copies = p.in_place ? (active ^ p.passes) & 1 : active == 0;
    active += copies;
    for (u32 i = 0, order = 0; i < p.passes; i++) {
        PassPlan plan = {SKIPPED, 0, 0, 0};
        bool runs = !ld_relaxed(&p.trivial[i]);
        if (!runs && copies) {
            copies--;
            runs = true;
        }
        if (runs) {
            plan.order = order;
            if (p.in_place) {
                plan.source = order & 1 ? 1 : 0;
                plan.target = order & 1 ? 0 : 1;
            } else {
                plan.target = (active - 1 - order) & 1 ? 1 : 2;
                plan.source = order == 0 ? 0 : (plan.target == 1 ? 2 : 1);
            }
            order++;
        }
        p.plan[i] = plan;
    }
}

/// The lanes of the warp whose digit is this lane's.
TENON_DEVICE u32 warp_match(u32 digit) {
#ifdef TENON_SIM
    return __match_any_sync(FULL_WARP, digit);
#else
    // One ballot a bit: the match instruction makes the whole pass 1.6 times slower (H100).
    u32 same = FULL_WARP;
#pragma unroll
    for (u32 bit = 0; bit < RADIX_BITS; bit++) same &= ballot_of_equal(digit, 1u << bit);
    return same;
#endif
}

// A tile's descriptor of a bin: nothing yet, its own count, or the count of all tiles up to it.
constexpr u32 STATE_COUNT = 1u << 30, STATE_TOTAL = 2u << 30, STATE_VALUE = (1u << 30) - 1;

/// Items of this bin in all tiles before `tile`. Reads several tiles at once, so that their latencies overlap.
TENON_DEVICE u32 look_back(const u32* states, u32 tile, u32 bin) {
    constexpr u32 depth = tuning::RADIX_LOOK_BACK;
    u32 sum = 0;
    u32 before = tile;  // tiles not yet added
    while (true) {
        u32 seen[depth];
#pragma unroll
        for (u32 i = 0; i < depth; i++) {
            seen[i] = before > i ? ld_relaxed(&states[(u64)(before - 1 - i) * BINS + bin]) : STATE_TOTAL;
        }
        u32 added = 0;
#pragma unroll
        for (u32 i = 0; i < depth; i++) {
            if (added == i && seen[i]) {
                sum += seen[i] & STATE_VALUE;
                if (seen[i] & STATE_TOTAL) return sum;
                added++;
            }
        }
        before -= added;
        if (added == 0) tenon_spin_pause();
    }
}

struct PassShared {
    u32 tile;
    u32 warps[32];
    OFFSET base[BINS];  // place of the bin's first item of this tile, less its place in the tile
};

/// A thread's ranks, two to a register. All indices are constants after unrolling.
struct Ranks {
    u32 pairs[(ITEMS + 1) / 2];
    __device__ __forceinline__ void set(u32 i, u32 rank) {
        pairs[i / 2] = i % 2 ? (pairs[i / 2] & 0xffffu) | rank << 16
                             : (i + 1 < ITEMS ? pairs[i / 2] & 0xffff0000u : 0) | rank;
    }
    __device__ __forceinline__ u32 get(u32 i) const { return i % 2 ? pairs[i / 2] >> 16 : pairs[i / 2] & 0xffffu; }
};

/// A thread's item numbers in a tile.
struct Mine {
    u32 first;
    __device__ __forceinline__ u32 operator[](u32 i) const { return first + i * 32; }
};

/// One tile; `FULL`: no item lies beyond the end.
template <bool FULL>
TENON_DEVICE void pass_tile(const PassParams& p, const PassPlan& plan, PassShared& s, u8* dynamic, u32 tile, u32 valid) {
    KEY* tile_keys = reinterpret_cast<KEY*>(dynamic);
    // TILE is a multiple of 32: every part is aligned to 16 bytes.
    u32* counts = reinterpret_cast<u32*>(dynamic + TILE * (sizeof(KEY) + PAYLOAD_BYTES));  // [WARPS][BINS]
    const KEY* keys_in = plan.source == 0 ? p.keys_in : plan.source == 1 ? p.keys_temporary : p.keys_out;
    KEY* keys_out = plan.target == 0 ? const_cast<KEY*>(p.keys_in) : plan.target == 1 ? p.keys_temporary : p.keys_out;
    const u32 thread = threadIdx.x, lane = lane_id(), warp = warp_id();
    const u32 lanes_upto = FULL_WARP >> (31 - lane);
    const u64 start = p.first_item + (u64)tile * TILE;
    u32* warp_counts = counts + warp * BINS;

    // ---- load: item i of lane l of warp w is number w * 32 * ITEMS + i * 32 + l of the tile
    const Mine mine{warp * (32 * ITEMS) + lane};
    KEY keys[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) keys[i] = FULL || mine[i] < valid ? keys_in[start + mine[i]] : KEY();

    // A stable pass puts what lies beyond the end behind the last bin's items; an unstable one leaves it out.
    auto counted = [&](u32 i) { return FULL || STABLE || mine[i] < valid; };
    auto digit_at = [&](u32 i) {
        u32 digit = digit_of_key(keys[i], p.code);
        return FULL || mine[i] < valid ? digit : BINS - 1;
    };
    // Place among the warp's items of the digit, from the warp's counter on.
    auto take_place = [&](u32 i, u32 digit) -> u32 {
#if STABLE
        // The last of the equal lanes takes places for all: its own number among them is how many they are.
        u32 same = warp_match(digit);
        u32 leader = 31 - (u32)__clz((int)same), number = (u32)__popc(same & lanes_upto);
        u32 before = 0;
        if (lane == leader) before = atomicAdd(&warp_counts[digit], number);
        before = __shfl_sync(FULL_WARP, before, (int)leader);
        return before + number - 1;
#else
        return counted(i) ? atomicAdd(&warp_counts[digit], 1u) : 0;
#endif
    };

    Ranks ranks = {};
    // Counting before ranking publishes the counts early: the tiles before have theirs ready when they are needed.
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (counted(i)) atomicAdd(&warp_counts[digit_at(i)], 1u);
    }
    const u32 padding = STABLE ? TILE - valid : 0;  // counted in the last bin
    __syncthreads();

    // ---- counts of the tile, published; places in the tile
    u32* states = p.states + (u64)((plan.order * p.portions + p.portion) & 1) * p.tiles_max * BINS;
    u32 count = 0, in_tile = 0;
    if (thread < BINS) {
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) count += counts[w * BINS + thread];
        u32 published = thread == BINS - 1 ? count - padding : count;
#if STABLE
        st_relaxed(&states[(u64)tile * BINS + thread], (tile == 0 ? STATE_TOTAL : STATE_COUNT) | published);
#endif
        if constexpr (BINS >= 32) {
            u32 inclusive = warp_inclusive_scan(count, Sum());
            if (lane == 31) s.warps[warp] = inclusive;
            in_tile = inclusive - count;
        }
        count = published;
    }
    if constexpr (BINS >= 32) {
        __syncthreads();
        if (thread < BINS) {
#pragma unroll
            for (u32 w = 0; w < BINS / 32; w++) in_tile += w < warp ? s.warps[w] : 0;
        }
    } else {
        // Fewer bins than lanes: the whole first warp scans, the lanes above hold nothing.
        if (warp == 0) {
            u32 all = thread < BINS ? (thread == BINS - 1 ? count + padding : count) : 0;
            in_tile = warp_inclusive_scan(all, Sum()) - all;
        }
    }
    if (thread < BINS) {
        u32 running = in_tile;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) {
            u32 c = counts[w * BINS + thread];
            counts[w * BINS + thread] = running;
            running += c;
        }
    }
    __syncthreads();

    // ---- exchange: items of equal digits side by side
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 place = take_place(i, digit_at(i));
        ranks.set(i, place);
#if SCATTER_BYTES == 0
        if (counted(i)) tile_keys[place] = keys[i];
#endif
    }
#if PAYLOAD_BYTES && SCATTER_BYTES == 0
    Payload* tile_payload = reinterpret_cast<Payload*>(dynamic + TILE * sizeof(KEY));
    const Payload* payload_in =
        plan.source == 0 ? p.payload_in : plan.source == 1 ? p.payload_temporary : p.payload_out;
    Payload* payload_out = plan.target == 0   ? const_cast<Payload*>(p.payload_in)
                           : plan.target == 1 ? p.payload_temporary
                                              : p.payload_out;
    Payload payload[ITEMS];
    if (payload_in == nullptr) {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) payload[i] = (Payload)(start + mine[i]);
    } else {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            payload[i] = FULL || mine[i] < valid ? payload_in[start + mine[i]] : Payload();
        }
    }
#endif

    // ---- where the tile's bins go (while the payload is on its way)
    if (thread < BINS) {
#if STABLE
        u64 base = p.bases_in[thread];
        u32 before = tile == 0 ? 0 : look_back(states, tile, thread);
        if (tile != 0) st_relaxed(&states[(u64)tile * BINS + thread], STATE_TOTAL | (before + count));
        base += before;
        s.base[thread] = (OFFSET)base - in_tile;
        if (tile == p.tiles - 1) p.bases_out[thread] = base + count;
        // The next launch finds its descriptors empty.
        u32* next = p.states + (u64)((plan.order * p.portions + p.portion + 1) & 1) * p.tiles_max * BINS;
        for (u32 row = tile; row < p.tiles_max; row += p.tiles) next[(u64)row * BINS + thread] = 0;
#else
        u64 base = atomicAdd(&p.bases_out[thread], (u64)count);
        s.base[thread] = (OFFSET)base - in_tile;
#endif
    }
#if PAYLOAD_BYTES && SCATTER_BYTES == 0
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (counted(i)) tile_payload[ranks.get(i)] = payload[i];
    }
#endif
    __syncthreads();

    // ---- write
#if SCATTER_BYTES
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (FULL || mine[i] < valid) {
            p.places[start + mine[i]] = (Place)(OFFSET)(s.base[digit_at(i)] + ranks.get(i));
        }
    }
#else
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + thread;
        if (FULL || at < valid) {
            KEY key = tile_keys[at];
            u32 digit = digit_of_key(key, p.code);
            OFFSET place = s.base[digit] + at;
            if (keys_out) keys_out[place] = key;
#if PAYLOAD_BYTES
            payload_out[place] = tile_payload[at];
#endif
        }
    }
#endif
}

TENON_KERNEL_BOUNDS(radix_pass, PassParams, THREADS, BLOCKS) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(PassShared, s);
    // Tiles are numbered as blocks start, so that every tile looked back to is running or done.
    if (threadIdx.x == 0) s.tile = atomicAdd(p.ticket, 1u);
    const PassPlan plan = p.plan[p.pass];
    if (plan.order == SKIPPED) return;
    u32* warp_counts = reinterpret_cast<u32*>(dynamic + TILE * (sizeof(KEY) + PAYLOAD_BYTES)) + warp_id() * BINS;
#pragma unroll
    for (u32 i = lane_id(); i < BINS; i += 32) warp_counts[i] = 0;
    __syncthreads();
    const u32 tile = s.tile;
    const u64 left = p.items - (u64)tile * TILE;
    if (left >= TILE) pass_tile<true>(p, plan, s, dynamic, tile, TILE);
    else pass_tile<false>(p, plan, s, dynamic, tile, (u32)left);
}
