// Sort of strings: words of seven bytes, and what is still tied after a word. Macro: OFFSET (u32 or u64).
#include "tenon.cuh"

struct WordsParams {
    const OFFSET* offsets;  // [rows + 1]
    const u8* bytes;
    const u32* indices;  // null: row i is item i
    u64* words;
    u64 items;
    u64 skip;  // bytes of each string that are settled
};
struct TiesParams {
    const u64* words;   // in order of group, then word
    const u32* groups;  // null: all one group
    u32* heads;         // 1 where a new group begins
    u32* tied;          // 1 where the item is equal to a neighbour so far and its string goes on
    u64 items;
};
struct CompactParams {
    const u32* tied;
    const u32* places;     // exclusive sums of `tied`
    const u32* heads;      // inclusive sums
    const u32* rows;       // in order
    const u32* positions;  // in the result; null: item i is at i
    u32* rows_out;
    u32* positions_out;
    u32* groups_out;
    u64 items;
};

/// Seven bytes, most significant first, then how many bytes were left, at most 8: a string that ends is smaller than
/// one that goes on with zero bytes, and only words that end in 8 leave something to compare.
TENON_KERNEL(string_words, WordsParams) {
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        u64 row = p.indices ? p.indices[at] : at;
        u64 start = (u64)p.offsets[row] + p.skip, end = p.offsets[row + 1];
        u64 left = start < end ? end - start : 0, word = 0;
#pragma unroll
        for (u32 i = 0; i < 7; i++) word = word << 8 | (i < left ? p.bytes[start + i] : 0);
        p.words[at] = word << 8 | min_of<u64>(left, 8);
    }
}

TENON_KERNEL(string_ties, TiesParams) {
    auto begins = [&](u64 i) {
        return i == 0 || i == p.items || p.words[i] != p.words[i - 1] || (p.groups && p.groups[i] != p.groups[i - 1]);
    };
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        bool head = begins(at);
        p.heads[at] = head;
        p.tied[at] = !(head && begins(at + 1)) && (p.words[at] & 255) == 8;
    }
}

TENON_KERNEL(string_compact, CompactParams) {
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        if (p.tied[at]) {
            u32 place = p.places[at];
            p.rows_out[place] = p.rows[at];
            p.positions_out[place] = p.positions ? p.positions[at] : (u32)at;
            p.groups_out[place] = p.heads[at] - 1;
        }
    }
}
