// The join of partitions (He 2008, section 4.3): a block builds a table of one partition's build tuples in shared
// memory, then probes it with a piece of the partition's probe tuples. Build partitions beyond the table's capacity are
// joined chunk by chunk; many probe tuples of one partition are cut into pieces, so that neither serialises the grid.
//
//   partition_work  which pieces meet which build tuples
//   join            by MODE: 0 count the partners of each position, 1 write pairs at given places,
//                   2 mark, 3 write all at once, 4 count and sum of products
//
// The table: twice as many slots as tuples. Where pairs come out, a slot is the head of a list (`links`) of all tuples
// with its hash: putting one in is one exchange. Where the number of a key's tuples is enough (GROUPED), a slot is for one
// key, by linear probing: its first tuple counts the others, and any number of equal keys on both sides costs no more
// than different ones. Sums (MODE 4) take lists while all are short, since those need no more room and time than pairs
// do, and groups by key otherwise.
//
// Macros: those of join_hash.cuh; MODE, HAS_RESIDUAL, BUILD_VALUE, PROBE_VALUE, THREADS, ITEMS, BLOCKS.
#include "join_hash.cuh"
#include "block.cuh"
#include "residual_params.cuh"

constexpr u32 NONE = 0xffffffffu, TILE = THREADS * ITEMS, WARPS = THREADS / 32;
constexpr bool GROUPED = (MODE == 0 || MODE == 2) && !HAS_RESIDUAL, SUMS = MODE == 4;
/// SUMS: a list with more tuples behind one is long. Of well spread different keys hardly any list is.
constexpr u32 LIST_MAX = 8;
constexpr u32 MARKED = 1u << 31;

struct WorkParams {
    const u32* build_offsets;
    const u32* probe_offsets;
    Work* work;
    u32* count;  // zeroed
    u64 from, to;  // of the probe tuples
    u64* skewed;   // null, or set if a partition has more than `build_max` build tuples: then it gets no work
    u32 partitions, capacity, piece, build_max;
};
struct JoinParams {
    const Tuple* build;
    const Tuple* probe;
    const Work* work;
    const u32* work_count;
    u64 from;           // position of counts[0] and offsets[0]
    u32* counts;        // zeroed
    const u64* offsets;
    u64 window_from, window_to;
    KEY* keys_out;  // null: not wanted
    BUILD_VALUE* build_out;
    PROBE_VALUE* probe_out;
    u64 capacity_out;
    u64* count_out;
    u64* sum_out;
    u8* build_flags;  // null: not wanted
    u8* probe_flags;
    u32 capacity, slots_log2, slot_shift, unused;
    ResidualParams residual;
};

/// A thread a partition; partitions of many pieces are cut by their whole warp.
TENON_KERNEL(partition_work, WorkParams) {
    constexpr u32 FEW = 8;
    u32 partition = (u32)global_thread(), lane = lane_id();
    Work all = {};
    u32 piece = p.piece, pieces = 0;
    if (partition < p.partitions) {
        all.build_from = p.build_offsets[partition];
        all.build_to = p.build_offsets[partition + 1];
        all.probe_from = (u32)max_of<u64>(p.probe_offsets[partition], p.from);
        all.probe_to = (u32)min_of<u64>(p.probe_offsets[partition + 1], p.to);
        // A table that must be built again for each tile is worth a piece of one tile.
        if (all.build_to - all.build_from > p.capacity) piece = TILE;
        bool is_empty = all.build_from == all.build_to || all.probe_from >= all.probe_to;
        if (p.skewed && all.build_to - all.build_from > p.build_max) {
            *p.skewed = 1;
            is_empty = true;
        }
        pieces = is_empty ? 0 : ceil_div(all.probe_to - all.probe_from, piece);
    }
    u32 inclusive = warp_inclusive_scan(pieces, Sum()), of_warp = shuffle(inclusive, 31), place = 0;
    if (lane == 0 && of_warp) place = atomicAdd(p.count, of_warp);
    place = shuffle(place, 0) + inclusive - pieces;
    auto cut = [&](const Work& all, u32 piece, u32 place, u32 number) {
        u32 start = all.probe_from + number * piece;
        u32 end = all.probe_to - start > piece ? start + piece : all.probe_to;
        p.work[place + number] = Work{all.build_from, all.build_to, start, end};
    };
    for (u32 i = 0; pieces <= FEW && i < pieces; i++) cut(all, piece, place, i);
    for (u32 lanes = __ballot_sync(FULL_WARP, pieces > FEW); lanes; lanes &= lanes - 1) {
        u32 owner = (u32)__ffs((int)lanes) - 1;
        Work theirs = shuffle(all, owner);
        u32 its_piece = shuffle(piece, owner), its_pieces = shuffle(pieces, owner), its_place = shuffle(place, owner);
        for (u32 i = lane; i < its_pieces; i += 32) cut(theirs, its_piece, its_place, i);
    }
}

struct Table {
    u32* heads;     // [slots]
    WORD* values;   // [capacity]
    u64* sums;      // [capacity], SUMS by key, instead of `values`: at a key's first tuple, the sum of all its values
    KEY* keys;      // [capacity]
    u32* groups;    // [capacity], GROUPED: at a key's first tuple, the number of others, and whether it is marked
    u16* links;     // [capacity]: the next tuple of the slot; GROUPED: the first of the key
    u32* counts;    // SUMS by key, instead of `links`: 16 bits a tuple, at a key's first the number of its tuples
    u32 mask, shift, size;
    bool is_by_key;  // SUMS: groups instead of lists

    TENON_METHOD u32 slot_of(KEY key) const { return hash_of(key) >> shift & mask; }
    /// GROUPED, or SUMS by key: the first tuple of this key, or NONE.
    TENON_METHOD u32 find(KEY key) const {
        u32 slot = slot_of(key);
        while (true) {
            u32 head = heads[slot];
            if (head == NONE || keys[head] == key) return head;
            slot = (slot + 1) & mask;
        }
    }
    /// The first of this key in the list from `tuple` on, or NONE.
    TENON_METHOD u32 match(u32 tuple, KEY key) const {
        while (tuple != NONE && keys[tuple] != key) tuple = next(tuple);
        return tuple;
    }
    TENON_METHOD u32 next(u32 tuple) const {
        u32 link = links[tuple];
        return link == 0xffffu ? NONE : link;
    }
};

TENON_DEVICE Table table_at(u8* dynamic, const JoinParams& p) {
    Table t;
    t.heads = reinterpret_cast<u32*>(dynamic);
    dynamic += (u64)4 << p.slots_log2;
    t.values = reinterpret_cast<WORD*>(dynamic);
    t.sums = reinterpret_cast<u64*>(dynamic);
    dynamic += (u64)p.capacity * (SUMS ? 8 : sizeof(WORD));
    t.keys = reinterpret_cast<KEY*>(dynamic);
    dynamic += (u64)p.capacity * sizeof(KEY);
    t.groups = reinterpret_cast<u32*>(dynamic);
    if (GROUPED) dynamic += (u64)p.capacity * 4;
    t.links = reinterpret_cast<u16*>(dynamic);
    t.counts = reinterpret_cast<u32*>(dynamic);
    t.is_by_key = false;
    t.mask = (1u << p.slots_log2) - 1;
    t.shift = p.slot_shift;
    t.size = 0;
    return t;
}

/// Counts a tuple with the first of its key, or makes it the first.
TENON_DEVICE void insert_group(const Table& t, u32 tuple) {
    KEY key = t.keys[tuple];
    u32 slot = t.slot_of(key);
    while (true) {
        u32 head = atomicCAS(&t.heads[slot], NONE, tuple);
        if (head == NONE) {
            t.links[tuple] = (u16)tuple;
            return;
        }
        if (t.keys[head] == key) {
            atomicAdd(&t.groups[head], 1u);
            t.links[tuple] = (u16)head;
            return;
        }
        slot = (slot + 1) & t.mask;
    }
}

TENON_DEVICE void clear_heads(const Table& t) {
    Pack<u32, 4> empty = {{NONE, NONE, NONE, NONE}};
    for (u32 i = threadIdx.x * 4; i <= t.mask; i += THREADS * 4) store_pack(t.heads + i, empty);
}

/// SUMS: groups by key instead of lists if a list is long. All threads together, between barriers.
TENON_DEVICE void sum_by_key(Table& t, const Tuple* build) {
    bool is_long = false;
    for (u32 i = threadIdx.x; i < t.size; i += THREADS) {
        u32 behind = 0;
        for (u32 tuple = t.next(i); tuple != NONE && behind < LIST_MAX; tuple = t.next(tuple)) behind++;
        is_long |= behind == LIST_MAX;
    }
    t.is_by_key = __syncthreads_or(is_long);
    if (!t.is_by_key) return;
    clear_heads(t);
    for (u32 i = threadIdx.x; i < t.size; i += THREADS) {
        t.sums[i] = (u64)(BUILD_VALUE)build[i].value;
        if (i % 2 == 0) t.counts[i / 2] = 0x00010001u;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < t.size; i += THREADS) {
        KEY key = t.keys[i];
        u32 slot = t.slot_of(key), head;
        while ((head = atomicCAS(&t.heads[slot], NONE, i)) != NONE) {
            if (t.keys[head] == key) {
                atomicAdd(&t.counts[head / 2], head % 2 ? 1u << 16 : 1u);
                atomicAdd(&t.sums[head], t.sums[i]);
                break;
            }
            slot = (slot + 1) & t.mask;
        }
    }
}

/// The table of these build tuples. All threads together; begins and ends with a barrier.
TENON_DEVICE void build_table(Table& t, const Tuple* build, u32 size) {
    __syncthreads();
    t.size = size;
    clear_heads(t);
    if (GROUPED) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < size; i += THREADS) {
            Tuple tuple = build[i];
            t.keys[i] = (KEY)tuple.key;
            t.values[i] = tuple.value;
            t.groups[i] = 0;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < size; i += THREADS) insert_group(t, i);
    } else {
        __syncthreads();
#pragma unroll 8
        for (u32 i = threadIdx.x; i < size; i += THREADS) {
            Tuple tuple = build[i];
            t.keys[i] = (KEY)tuple.key;
            t.values[i] = tuple.value;
            t.links[i] = (u16)atomicExch(&t.heads[t.slot_of((KEY)tuple.key)], i);
        }
        if (SUMS) {
            __syncthreads();
            sum_by_key(t, build);
        }
    }
    __syncthreads();
}

/// Marks the build rows whose key is marked, of the table that is about to go.
TENON_DEVICE void spread_marks(const Table& t, const JoinParams& p) {
    if (!GROUPED || !p.build_flags) return;
    __syncthreads();
    for (u32 i = threadIdx.x; i < t.size; i += THREADS) {
        if (t.groups[t.links[i]] & MARKED) p.build_flags[t.values[i]] = 1;
    }
}

TENON_DEVICE bool holds(const JoinParams& p, const Table& t, u32 build, const Tuple& probe) {
#if HAS_RESIDUAL
    return residual(p.residual, (u32)t.values[build], (u32)probe.value);
#else
    return true;
#endif
}

/// Sets the flags of a pair.
TENON_DEVICE void flag(const JoinParams& p, const Table& t, u32 build, const Tuple& probe) {
    if (p.build_flags) p.build_flags[t.values[build]] = 1;
    if (p.probe_flags) p.probe_flags[probe.value] = 1;
}

struct Shared {
    u32 warps[WARPS];
    u64 place;
    BlockStorage<u64> sums;
};

/// The first partner of a probe tuple in the list from `tuple` on, or NONE.
TENON_DEVICE u32 partner(const JoinParams& p, const Table& t, u32 tuple, const Tuple& probe) {
    KEY key = (KEY)probe.key;
    tuple = t.match(tuple, key);
    while (HAS_RESIDUAL && tuple != NONE && !holds(p, t, tuple, probe)) tuple = t.match(t.next(tuple), key);
    return tuple;
}

/// Partners of a probe tuple in the table (MODE 0, 2); sets the flags.
TENON_DEVICE u32 count_partners(const JoinParams& p, const Table& t, const Tuple& probe) {
    if (GROUPED) {
        u32 head = t.find((KEY)probe.key);
        if (head == NONE) return 0;
        u32 group = t.groups[head];
        if (p.build_flags && !(group & MARKED)) atomicOr(&t.groups[head], MARKED);
        if (p.probe_flags) p.probe_flags[probe.value] = 1;
        return 1 + (group & ~MARKED);
    }
    u32 found = 0, build = partner(p, t, t.heads[t.slot_of((KEY)probe.key)], probe);
    while (build != NONE) {
        found++;
        flag(p, t, build, probe);
        if (MODE == 2 && !p.build_flags) break;
        build = partner(p, t, t.next(build), probe);
    }
    return found;
}

/// Adds the pairs of the tile's tuples, and their products (MODE 4).
TENON_DEVICE void add_products(const Table& t, const Tuple (&probes)[ITEMS], const bool (&valid)[ITEMS], u64& count,
                               u64& sum) {
    u32 firsts[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        KEY key = (KEY)probes[i].key;
        firsts[i] = !valid[i] ? NONE : t.is_by_key ? t.find(key) : t.heads[t.slot_of(key)];
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        KEY key = (KEY)probes[i].key;
        u64 values = 0;
        if (t.is_by_key) {
            if (firsts[i] == NONE) continue;
            count += t.counts[firsts[i] / 2] >> (firsts[i] % 2 * 16) & 0xffffu;
            values = t.sums[firsts[i]];
        } else {
            for (u32 build = t.match(firsts[i], key); build != NONE; build = t.match(t.next(build), key)) {
                count++;
                values += (u64)(BUILD_VALUE)t.values[build];
            }
        }
        sum += values * (u64)(PROBE_VALUE)probes[i].value;
    }
}

/// Writes all pairs of the tile's tuples: the block takes places for all, each warp writes its own side by side.
TENON_DEVICE void write_all(const JoinParams& p, Shared& s, const Table& t, const Tuple (&probes)[ITEMS],
                            const bool (&valid)[ITEMS]) {
    u32 firsts[ITEMS], found = 0;
    u32 several = 0;  // bit `i`: more than one partner
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        firsts[i] = valid[i] ? t.heads[t.slot_of((KEY)probes[i].key)] : NONE;
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 build = firsts[i] = partner(p, t, firsts[i], probes[i]);
        if (build == NONE) continue;
        found++;
        while ((build = partner(p, t, t.next(build), probes[i])) != NONE) {
            found++;
            several |= 1u << i;
        }
    }
    found = warp_reduce(found, Sum());
    __syncthreads();
    if (lane_id() == 0) s.warps[warp_id()] = found;
    __syncthreads();
    u32 of_warp = lane_id() < WARPS ? s.warps[lane_id()] : 0;
    u32 scanned = warp_inclusive_scan(of_warp, Sum());
    u32 before = shuffle(scanned - of_warp, warp_id()), all = shuffle(scanned, 31);
    if (threadIdx.x == 0) s.place = all ? atomicAdd(p.count_out, (u64)all) : 0;
    __syncthreads();
    u64 place = s.place + before;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 build = firsts[i];
        u32 lanes = __ballot_sync(FULL_WARP, build != NONE);
        while (lanes) {
            u64 to = place + (u32)__popc(lanes & lanes_below());
            if (build != NONE) {
                WORD value = t.values[build];
                if (p.build_flags) p.build_flags[value] = 1;
                if (p.probe_flags) p.probe_flags[probes[i].value] = 1;
                if (to < p.capacity_out) {
                    if (p.keys_out) p.keys_out[to] = (KEY)probes[i].key;
                    p.build_out[to] = (BUILD_VALUE)value;
                    p.probe_out[to] = (PROBE_VALUE)probes[i].value;
                }
            }
            place += (u32)__popc(lanes);
            build = several >> i & 1 && build != NONE ? partner(p, t, t.next(build), probes[i]) : NONE;
            lanes = __ballot_sync(FULL_WARP, build != NONE);
        }
    }
}

TENON_DEVICE void put(const JoinParams& p, u64 place, WORD build, WORD probe) {
    if (place < p.window_from || place >= p.window_to) return;
    p.build_out[place - p.window_from] = (BUILD_VALUE)build;
    p.probe_out[place - p.window_from] = (PROBE_VALUE)probe;
}

/// Writes the pairs of the tile's tuples at their places (MODE 1). `first` is the offset of the thread's first tuple;
/// `places` are those of the next pairs.
///
/// The order within a list differs from one launch to the next. That is no matter where all partners of a probe tuple
/// are in the window; where they are cut, another launch writes the rest, so the warp takes them in the table's order.
TENON_DEVICE void write_windowed(const JoinParams& p, const Table& t, const Tuple (&probes)[ITEMS],
                                 const bool (&valid)[ITEMS], u64 first, u64 (&places)[ITEMS]) {
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 from = 0, to = 0;
        if (valid[i]) {
            from = p.offsets[first + i * THREADS];
            to = p.offsets[first + i * THREADS + 1];
        }
        bool is_touched = from < p.window_to && to > p.window_from;
        bool is_cut = is_touched && (from < p.window_from || to > p.window_to);
        if (is_touched && !is_cut) {
            u32 build = partner(p, t, t.heads[t.slot_of((KEY)probes[i].key)], probes[i]);
            for (; build != NONE; build = partner(p, t, t.next(build), probes[i])) {
                put(p, places[i]++, t.values[build], probes[i].value);
            }
        }
        for (u32 cut = __ballot_sync(FULL_WARP, is_cut); cut; cut &= cut - 1) {
            u32 owner = (u32)__ffs((int)cut) - 1;
            Tuple probe = shuffle(probes[i], owner);
            u64 place = shuffle(places[i], owner);
            for (u32 start = 0; start < t.size; start += 32) {
                u32 build = start + lane_id();
                bool is_pair = build < t.size && t.keys[build] == (KEY)probe.key && holds(p, t, build, probe);
                u32 lanes = __ballot_sync(FULL_WARP, is_pair);
                if (is_pair) put(p, place + (u32)__popc(lanes & lanes_below()), t.values[build], probe.value);
                place += (u32)__popc(lanes);
            }
            if (lane_id() == owner) places[i] = place;
        }
    }
}

TENON_KERNEL_BOUNDS(join, JoinParams, THREADS, BLOCKS) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(Shared, s);
    if (blockIdx.x >= *p.work_count) return;
    const Work work = p.work[blockIdx.x];
    Table t = table_at(dynamic, p);
    u32 built = NONE;  // start of the chunk that the table holds
    u64 count = 0, sum = 0;
    for (u32 tile = work.probe_from; tile < work.probe_to; tile += TILE) {
        Tuple probes[ITEMS];
        bool valid[ITEMS];
        u64 places[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 at = tile + i * THREADS + threadIdx.x;
            valid[i] = at < work.probe_to && at >= tile;
            probes[i] = valid[i] ? p.probe[at] : Tuple{};
            if (MODE == 1) places[i] = valid[i] ? p.offsets[at - p.from] : 0;
        }
        for (u32 from = work.build_from; from < work.build_to; from += p.capacity) {
            if (built != from) {
                if (built != NONE) spread_marks(t, p);
                build_table(t, p.build + from, min_of(work.build_to - from, p.capacity));
                built = from;
            }
            if (MODE == 1) {
                write_windowed(p, t, probes, valid, tile + threadIdx.x - p.from, places);
                continue;
            }
            if (MODE == 3) {
                write_all(p, s, t, probes, valid);
                continue;
            }
            if (SUMS) {
                add_products(t, probes, valid, count, sum);
                continue;
            }
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                if (!valid[i]) continue;
                if (MODE == 0) {
                    u32 found = count_partners(p, t, probes[i]);
                    if (found) p.counts[tile + i * THREADS + threadIdx.x - p.from] += found;
                } else {
                    count_partners(p, t, probes[i]);
                }
            }
        }
    }
    spread_marks(t, p);
    if (SUMS) {
        count = block_reduce(count, Sum(), (u64)0, s.sums);
        sum = block_reduce(sum, Sum(), (u64)0, s.sums);
        if (threadIdx.x == 0) {
            atomicAdd(p.count_out, count);
            atomicAdd(p.sum_out, sum);
        }
    }
}
