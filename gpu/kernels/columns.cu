// Sort keys of several columns: the ordered bits of columns side by side in one word.
// Macros: KEY, KEY_FLOAT, WORD (u64 or u128).
#include "radix_key.cuh"

struct PackParams {
    const KEY* keys;
    const u8* valid;     // null: no nulls; else a bit a row, least significant first
    const u32* indices;  // null: row i is item i
    WORD* words;
    u64 items, valid_offset;
    u64 base[2];      // the least code: what is stored is the difference
    u32 width;        // bits of the field
    u32 first;        // the word begins with this field
    u32 null_field;   // 0: the value, 0 if null; 1: one bit, set for nulls; 2: one bit, clear for nulls
    u32 unused;
    CodeParams code;
};

/// Appends a field of a column to each word.
TENON_KERNEL(pack_field, PackParams) {
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        u64 row = p.indices ? p.indices[at] : at;
        u64 bit = row + p.valid_offset;
        bool valid = !p.valid || (p.valid[bit >> 3] >> (bit & 7) & 1);
        WORD field = 0;
        if (p.null_field) {
            field = (p.null_field == 1) != valid;
        } else if (valid) {
            KeyBits base = (KeyBits)p.base[0];
            if constexpr (sizeof(KeyBits) == 16) base |= (u128)p.base[1] << 64;
            field = (WORD)(code_of(p.keys[row], p.code) - base);
        }
        p.words[at] = p.first ? field : (WORD)(p.words[at] << p.width) | field;
    }
}
