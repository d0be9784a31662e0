// What generated pipelines call: columns of tables as storage keeps them, tables of keys, groups and their sums.
#pragma once
#include "condition.cuh"
#include "block.cuh"

/// A segment's column. Whole numbers are differences of `width` bytes from the base, or with a width of 16 themselves;
/// a width of 0 is the base alone. Texts have their ends in `values`, of 4 bytes, and their bytes in `bytes`. Null rows
/// have a 0 in `valid`; without it there are none.
struct Segment {
    const u8* values;
    const u8* bytes;
    const u8* valid;
    u64 base_low, base_high;
    u64 width;
};

/// Rows that a block works on at once: of one segment.
struct Tile {
    u32 segment, start, rows, before;
};

struct PipelineParams {
    const u8* buffers[64];
    u64 literals[96];
    u64 inputs[320];
    const Tile* tiles;
    /// Without tiles: the rows of a table made before, at most `rows_max`.
    const u32* rows;
    u64 rows_max, tile_count;
    /// Tiles of the table before these.
    u64 tile_first;
    u32* failed;

    /// Says that some row has no value: the host must do the work.
    TENON_METHOD void fail() const { *failed = 1; }
    template <class T>
    TENON_METHOD T value(int buffer, u64 row) const { return reinterpret_cast<const T*>(buffers[buffer])[row]; }
    TENON_METHOD bool bit(int buffer, u64 bit) const { return buffers[buffer][bit >> 3] >> (bit & 7) & 1; }
    template <class L>
    TENON_METHOD L literal(int i) const {
        L value;
        memcpy(&value, &literals[i], sizeof(L));
        return value;
    }
    /// Column `input` of the tile's segment.
    TENON_METHOD Segment segment(int input, u32 segment) const {
        return reinterpret_cast<const Segment*>(inputs[input])[segment];
    }
    template <class T>
    TENON_METHOD T* array(int input) const { return reinterpret_cast<T*>(inputs[input]); }
};

TENON_DEVICE bool stored_null(const Segment& s, u32 row) {
    return s.valid && !(s.valid[row >> 3] >> (row & 7) & 1);
}
/// A whole number whose column keeps differences of `Difference` everywhere.
template <class Difference>
TENON_DEVICE i64 stored(const Segment& s, u32 row) {
    return (i64)(s.base_low + reinterpret_cast<const Difference*>(s.values)[row]);
}
/// A whole number of any width that 64 bits hold.
TENON_DEVICE i64 stored_any(const Segment& s, u32 row) {
    switch (s.width) {
        case 0: return (i64)s.base_low;
        case 1: return stored<u8>(s, row);
        case 2: return stored<u16>(s, row);
        case 4: return stored<u32>(s, row);
        case 8: return stored<u64>(s, row);
        case 0x102: return stored<i16>(s, row);
        case 0x104: return stored<i32>(s, row);
        default: return (i64) reinterpret_cast<const i128*>(s.values)[row];
    }
}
/// A whole number of 128 bits.
TENON_DEVICE i128 stored_wide(const Segment& s, u32 row) {
    i128 base = bits_128(s.base_high, s.base_low);
    switch (s.width) {
        case 0: return base;
        case 1: return base + s.values[row];
        case 2: return base + reinterpret_cast<const u16*>(s.values)[row];
        case 4: return base + reinterpret_cast<const u32*>(s.values)[row];
        case 8: return base + reinterpret_cast<const u64*>(s.values)[row];
        default: return reinterpret_cast<const i128*>(s.values)[row];
    }
}
TENON_DEVICE u32 stored_code(const Segment& s, u32 row) {
    return s.width == 1 ? s.values[row] : reinterpret_cast<const u16*>(s.values)[row];
}
TENON_DEVICE f64 stored_f64(const Segment& s, u32 row) { return reinterpret_cast<const f64*>(s.values)[row]; }
TENON_DEVICE f32 stored_f32(const Segment& s, u32 row) { return reinterpret_cast<const f32*>(s.values)[row]; }
TENON_DEVICE bool stored_bit(const Segment& s, u32 row) { return s.values[row >> 3] >> (row & 7) & 1; }
TENON_DEVICE Text stored_text(const Segment& s, u32 row) {
    const u32* ends = reinterpret_cast<const u32*>(s.values);
    return Text{s.bytes + ends[row], ends[row + 1] - ends[row]};
}

/// A row of a table, wherever it is, by its position: the tile's number times a tile's rows, and its place there.
struct Place {
    u32 segment, row;
};
TENON_DEVICE Place place_of(const Tile* tiles, u32 position) {
    Tile tile = tiles[position / tuning::PIPELINE_TILE];
    return Place{tile.segment, tile.start + position % tuning::PIPELINE_TILE};
}
TENON_DEVICE Segment late_segment(const PipelineParams& p, int column, int tiles, u32 position) {
    return p.segment(column, place_of(p.array<const Tile>(tiles), position).segment);
}
TENON_DEVICE u32 late_row(const PipelineParams& p, int tiles, u32 position) {
    return place_of(p.array<const Tile>(tiles), position).row;
}
TENON_DEVICE Text late_text(const PipelineParams& p, int column, int tiles, u32 position) {
    Place place = place_of(p.array<const Tile>(tiles), position);
    return stored_text(p.segment(column, place.segment), place.row);
}
TENON_DEVICE bool late_null(const PipelineParams& p, int column, int tiles, u32 position) {
    Place place = place_of(p.array<const Tile>(tiles), position);
    return stored_null(p.segment(column, place.segment), place.row);
}

TENON_DEVICE u64 mixed(u64 hash, u64 word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

constexpr u32 NO_ROW = 0xffffffffu;

/// Puts a row's place in its tile into a block's list.
TENON_DEVICE void put_in_list(u16* list, u32* listed, u32 place) {
    u32 lanes = __activemask(), first = (u32)__ffs((i32)lanes) - 1, before = 0;
    if (lane_id() == first) before = atomicAdd(listed, (u32)__popc(lanes));
    list[__shfl_sync(lanes, before, (int)first) + (u32)__popc(lanes & lanes_below())] = (u16)place;
}

/// The first of some words in order that is not less than this one, or the end.
TENON_DEVICE u32 first_from(const u64* words, u32 from, u32 end, u64 word) {
    while (from < end) {
        const u32 middle = from + (end - from) / 2;
        if (words[middle] < word) from = middle + 1;
        else end = middle;
    }
    return from;
}

/// Adds what the threads of a warp have counted, all of which come here.
TENON_DEVICE void add_up(u64* sum, u64 counted) {
    counted = warp_reduce(counted, Sum());
    if (lane_id() == 0 && counted != 0) atomicAdd(sum, counted);
}

/// Keeps the largest of some lengths that are not negative.
TENON_DEVICE void longest_of(u64* longest, i64 length) {
    if (length > 0 && (u64)length > ld_relaxed(longest)) atomicMax(longest, (u64)length);
}

/// Whether a row may try so many partners: those of rows with many are counted, and too many in all fail the pipeline.
TENON_DEVICE bool allowed_pairs(const PipelineParams& p, u64* pairs, u64 own, u64 many, u64 all) {
    if (own <= many) return true;
    if (atomicAdd(pairs, own) + own <= all) return true;
    p.fail();
    return false;
}

/// A new place in a table of rows; NO_ROW where it is full, which fails the pipeline.
TENON_DEVICE u32 new_row(const PipelineParams& p, u32* count, u64 capacity) {
    // One addition for the lanes that come here together.
    u32 lanes = __activemask(), first = (u32)__ffs((i32)lanes) - 1, before = 0;
    if (lane_id() == first) before = atomicAdd(count, (u32)__popc(lanes));
    u32 row = __shfl_sync(lanes, before, (int)first) + (u32)__popc(lanes & lanes_below());
    if (row < capacity) return row;
    p.fail();
    return NO_ROW;
}

/// Rows of equal keys, or of equal hashes, as chains: `heads` has the last row put in, `next` the one before each, `chained`,
/// if there is one, whether any has. Rows are counted from 1 here; 0 ends a chain.
TENON_DEVICE void chain(u32* heads, u32* next, u32* chained, u64 bucket, u32 row) {
    const u32 before = atomicExch(&heads[bucket], row + 1);
    next[row] = before;
    if (chained && before && !ld_relaxed(chained)) st_relaxed(chained, 1u);
}

/// Groups by keys of WORDS words, in the order in which they come, with all STORED words of each key. A slot holds a group's
/// number plus 2, or says that there is none, or that somebody is about to write one.
template <int WORDS, int STORED = WORDS>
struct Groups {
    u32* slots;
    u64* keys;
    u32* count;
    u64 capacity, mask;

    /// A stored word of a group that was found.
    TENON_METHOD u64 word(u32 group, int at) const { return __ldcg(&keys[at * capacity + group]); }
    /// The group of a key, of those with these words one that is the same; NO_ROW where there is no room for a new one, which
    /// fails the pipeline.
    template <class Same>
    TENON_METHOD u32 find(const PipelineParams& p, const u64 (&key)[STORED], bool& is_new, Same same) const {
        u64 hash = 0;
#pragma unroll
        for (int w = 0; w < WORDS; w++) hash = mixed(hash, key[w]);
        is_new = false;
        for (u64 at = (hash ^ (hash >> 29)) & mask;; at = (at + 1) & mask) {
            u32 held = ld_acquire(&slots[at]);
            if (held == 0) {
                held = atomicCAS(&slots[at], 0u, 1u);
                if (held == 0) {
                    u32 group = new_row(p, count, capacity);
                    is_new = group != NO_ROW;
                    if (is_new) {
#pragma unroll
                        for (int w = 0; w < STORED; w++) keys[w * capacity + group] = key[w];
                    }
                    __threadfence();
                    st_release(&slots[at], is_new ? group + 2 : NO_ROW);
                    return group;
                }
            }
            while (held == 1) {
                tenon_spin_pause();
                held = ld_acquire(&slots[at]);
            }
            if (held == NO_ROW) return NO_ROW;
            u32 group = held - 2;
            bool equal = true;
#pragma unroll
            for (int w = 0; w < WORDS; w++) equal = equal && word(group, w) == key[w];
            if (equal && same(group)) return group;
        }
    }
};

/// Whether a value of a group comes for the first time.
TENON_DEVICE bool is_first(const PipelineParams& p, const Groups<2>& values, u64 group, u64 value) {
    bool is_new;
    const u64 key[2] = {group, value};
    values.find(p, key, is_new, [](u32) { return true; });
    return is_new;
}

/// What a group's words are to become.
TENON_DEVICE void add_word(u64* word, u64 value) { atomicAdd(word, value); }
TENON_DEVICE void add_wide(u64* low, u64* high, i128 value) {
    u64 added = (u64)value, before = atomicAdd(low, added);
    u64 carried = (u64)((u128)value >> 64) + (before + added < before);
    if (carried) atomicAdd(high, carried);
}
TENON_DEVICE void least_word(u64* word, i64 value) { atomicMin((i64*)word, value); }
TENON_DEVICE void greatest_word(u64* word, i64 value) { atomicMax((i64*)word, value); }

/// A number below 2^127 in two words: its lowest 64 bits, and above a bit those above them.
TENON_DEVICE u128 wide_number(u64 low, u64 high) { return (u128)(high >> 1) << 64 | low; }
TENON_DEVICE u64 wide_low(u128 number) { return (u64)number; }
TENON_DEVICE u64 wide_high(u128 number) { return (u64)(number >> 64) << 1; }
/// Keeps the greatest in words of a thread's own.
TENON_DEVICE void greatest_own(u64& low, u64& high, u128 number) {
    if (number <= wide_number(low, high)) return;
    low = wide_low(number);
    high = wide_high(number);
}
/// Keeps the greatest in words of many threads: whoever sets the upper word's lowest bit writes both. Neither the upper word falls,
/// nor the lower one while that stays.
TENON_DEVICE void greatest_wide(u64* low, u64* high, u128 number) {
    const u64 own_low = wide_low(number), own_high = wide_high(number);
    for (;;) {
        const u64 held = ld_acquire(high);
        if (held & 1) {
            tenon_spin_pause();
            continue;
        }
        if (held > own_high || (held == own_high && ld_relaxed(low) >= own_low)) return;
        if (atomicCAS(high, held, held | 1) != held) continue;
        // Somebody may have been here since it was read.
        const bool is_greater = held < own_high || ld_relaxed(low) < own_low;
        if (is_greater) st_relaxed(low, own_low);
        __threadfence();
        st_release(high, is_greater ? own_high : held);
        return;
    }
}

/// Trees whose nodes have the largest of TREE_FANOUT words below them, the levels one after the other, leaves first.
constexpr u32 TREE_FANOUT = 16;
/// The largest word below a node, of a level of so many words.
TENON_DEVICE u64 most_below(const u64* level, u64 words, u64 node) {
    u64 most = 0;
    u64 end = min_of<u64>((node + 1) * TREE_FANOUT, words);
    for (u64 at = node * TREE_FANOUT; at < end; at++) most = max_of<u64>(most, level[at]);
    return most;
}
/// The largest of the leaves from one on, up to another; 0 where there is none.
TENON_DEVICE u64 most_within(const u64* tree, u64 leaves, u64 first, u64 end) {
    u64 most = 0;
    while (first < end) {
        for (; first < end && first % TREE_FANOUT != 0; first++) most = max_of<u64>(most, tree[first]);
        for (; first < end && end % TREE_FANOUT != 0; end--) most = max_of<u64>(most, tree[end - 1]);
        tree += leaves;
        leaves = ceil_div<u64>(leaves, TREE_FANOUT);
        first /= TREE_FANOUT;
        end /= TREE_FANOUT;
    }
    return most;
}

/// The digits after the point that PostgreSQL's average of values with so many shows: those of a quotient.
TENON_DEVICE i64 average_scale(i128 sum, u64 count, i32 after, i64 shown) {
    return quotient_scale(Leading::of(sum, after), Leading::of((i128)count, 0), shown, 0);
}
/// The average that PostgreSQL gives of values with `after` digits after the point, of which `shown` are shown, rounded at its
/// own scale and told with `digits` of them.
TENON_DEVICE i128 average(const PipelineParams& p, i128 sum, u64 count, i32 after, i64 shown, i32 digits, i128 bound) {
    if (count == 0) return 0;
    Quotient found = numeric_quotient(sum, after, shown, (i128)count, 0, 0, digits, bound);
    if (!found.fits) p.fail();
    return found.value;
}

/// The digits after the point of a variance of so many numbers, and of its root.
TENON_DEVICE i64 spread_scale(i128 sum, i128 squares, u64 count, i32 after, bool sample) {
    const u128 over = spread_over(sum, squares, count);
    if (count <= sample || over == 0 || over == NO_SPREAD) return 0;
    const i128 under = (i128)count * (i128)(count - sample);
    return quotient_scale(Leading::of((i128)over, 2 * after), Leading::of(under, 0), 2 * after, 0);
}
/// PostgreSQL's variance of so many numbers with `after` digits after the point, of a sample or of all there are, or its root; of
/// these the sum and that of their squares are known. It is told with `digits` of its digits after the point.
TENON_DEVICE i128 spread(const PipelineParams& p, i128 sum, i128 squares, u64 count, i32 after, bool sample, bool root,
                         i32 digits, i128 bound) {
    const u128 over = spread_over(sum, squares, count);
    if (count <= sample || over == 0) return 0;
    Quotient found{0, 0, false};
    if (over != NO_SPREAD) {
        const i128 under = (i128)count * (i128)(count - sample);
        const i32 own = (i32)spread_scale(sum, squares, count, after, sample);
        const i128 all = (i128)(DECIMAL_MAX - 1);
        found = numeric_quotient((i128)over, 2 * after, 2 * after, under, 0, 0, root ? own : digits, root ? all : bound);
        if (root && found.fits) found = numeric_root((u128)found.value, own, digits, bound);
    }
    if (!found.fits) p.fail();
    return found.value;
}

/// A sum of two words that has to fit one: what does not is the CPU's to refuse.
TENON_DEVICE i64 sum_of_64(u64 high, u64 low, const PipelineParams& p) {
    if ((i64)high != (i64)low >> 63 || low == 1ull << 63) p.fail();
    return (i64)low;
}

/// A sum of floats: whether one that is not finite is an error depends on the values, so that it is the CPU's.
TENON_DEVICE f64 finite_sum(u64 sum, const PipelineParams& p) {
    if ((sum >> 52 & 0x7ff) == 0x7ff) p.fail();
    return bit_cast<f64>(sum);
}

/// The first bytes of a text as a number.
TENON_DEVICE u64 text_prefix(const Text& text) {
    u64 word = 0;
    for (u32 at = 0; at < 8; at++) word = word << 8 | (at < text.length ? text.bytes[at] : 0);
    return word;
}
/// A text of at most seven bytes as a number, from the lowest byte on, the highest being its length; of more, the
/// pipeline fails.
TENON_DEVICE u64 text_word(const PipelineParams& p, const Text& text) {
    if (text.length > 7) p.fail();
    u64 word = (u64)text.length << 56;
    for (u32 at = 0; at < 7 && at < text.length; at++) word |= (u64)text.bytes[at] << at * 8;
    return word;
}
TENON_DEVICE Text short_text(const u64* word) { return Text{reinterpret_cast<const u8*>(word), (u32)(*word >> 56)}; }
/// A number as 64 bits in its order, all beyond those being equal.
TENON_DEVICE u64 word_within(i128 value) {
    const i128 half = (i128)1 << 63;
    return value < -half ? 0 : value >= half ? ~0ull : (u64)value ^ 1ull << 63;
}

/// A text's hash, and where it is as one word: texts of 64 KiB and more fail the pipeline.
TENON_DEVICE u64 text_hash(const Text& text) {
    u64 hash = text.length, word = 0;
    for (u32 at = 0; at < text.length; at++) {
        word = word << 8 | text.bytes[at];
        if ((at & 7) == 7) hash = mixed(hash, word), word = 0;
    }
    return mixed(mixed(hash, word), hash);
}
TENON_DEVICE u64 text_place(const PipelineParams& p, const Text& text) {
    if (text.length >> 16) p.fail();
    return (u64)text.bytes | (u64)text.length << 48;
}
TENON_DEVICE Text text_placed(u64 place) {
    return Text{reinterpret_cast<const u8*>(place & 0xffffffffffffull), (u32)(place >> 48)};
}

/// Which of the texts behind buffer `buffer`, whose hashes that has a table of, a text is; -1: none.
template <class Offset>
TENON_DEVICE i64 text_code(const PipelineParams& p, int buffer, u64 mask, const Text& text) {
    for (u64 at = text_hash(text) & mask;; at = (at + 1) & mask) {
        const u32 held = p.value<u32>(buffer, at);
        if (held == 0) return -1;
        if (text_equal(text_at<Offset>(p, buffer + 1, held - 1), text)) return (i64)held - 1;
    }
}

/// Where a search for the `wanted`th smallest word stands: the digits above the one at hand, and what is wanted of those
/// that have them.
struct Chosen {
    u64 prefix, wanted;
};
/// The next digit: that of the bin in which the wanted word is. Called by all threads of a block.
TENON_DEVICE Chosen choose_digit(const u32* bins, Chosen before) {
    static_assert(tuning::PIPELINE_THREADS == 256, "a thread for each value of a digit");
    TENON_SHARED(Chosen, found);
    TENON_SHARED(BlockStorage<u64>, storage);
    u64 own = bins[threadIdx.x], all;
    if (threadIdx.x == 0) found = Chosen{before.prefix << 8, 0};
    u64 below = block_exclusive_scan<u64>(own, Sum(), 0, storage, all);
    if (below < before.wanted && before.wanted <= below + own)
        found = Chosen{before.prefix << 8 | threadIdx.x, before.wanted - below};
    __syncthreads();
    Chosen chosen = found;
    __syncthreads();
    return chosen;
}
