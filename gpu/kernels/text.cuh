// Texts of generated conditions: UTF-8 bytes, ordered by bytes; lengths and places in characters. Nothing is copied: a
// part of a text is a pointer into it.
#pragma once
#include "tenon.cuh"

struct Text {
    const u8* bytes;
    u32 length;
};

/// Text `row` of a column: its offsets are in buffer `buffer`, its bytes in the next.
template <class Offset, class Params>
TENON_DEVICE Text text_at(const Params& p, int buffer, u64 row) {
    Offset from = p.template value<Offset>(buffer, row), to = p.template value<Offset>(buffer, row + 1);
    return Text{p.buffers[buffer + 1] + from, (u32)(to - from)};
}

TENON_DEVICE bool same_bytes(const u8* a, const u8* b, u32 bytes) {
    for (u32 i = 0; i < bytes; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

TENON_DEVICE bool text_equal(Text a, Text b) { return a.length == b.length && same_bytes(a.bytes, b.bytes, a.length); }

/// Below, equal to or above 0, as `a` is to `b`.
TENON_DEVICE i32 text_compare(Text a, Text b) {
    u32 both = min_of(a.length, b.length);
    for (u32 i = 0; i < both; i++) {
        if (a.bytes[i] != b.bytes[i]) return (i32)a.bytes[i] - (i32)b.bytes[i];
    }
    return (i32)(a.length > b.length) - (i32)(a.length < b.length);
}

TENON_DEVICE bool text_starts_with(Text text, Text start) {
    return start.length <= text.length && same_bytes(text.bytes, start.bytes, start.length);
}

TENON_DEVICE bool text_ends_with(Text text, Text end) {
    return end.length <= text.length && same_bytes(text.bytes + (text.length - end.length), end.bytes, end.length);
}

/// Whether a byte is the first of a character.
TENON_DEVICE bool begins_char(u8 byte) { return (byte & 0xC0) != 0x80; }

TENON_DEVICE i64 text_chars(Text text) {
    i64 chars = 0;
    for (u32 i = 0; i < text.length; i++) chars += begins_char(text.bytes[i]);
    return chars;
}

/// The byte where the character after the one at `at` begins.
TENON_DEVICE u32 next_char(Text text, u32 at) {
    do at++;
    while (at < text.length && !begins_char(text.bytes[at]));
    return at;
}

/// Whether a character is one of a text's.
TENON_DEVICE bool text_has_char(Text text, Text own) {
    for (u32 at = 0; at < text.length;) {
        const u32 next = next_char(text, at);
        if (text_equal(Text{text.bytes + at, next - at}, own)) return true;
        at = next;
    }
    return false;
}

/// A text without those characters at its beginning, at its end, or both.
TENON_DEVICE Text text_trim(Text text, Text characters, bool first, bool last) {
    u32 from = 0, to = text.length;
    while (first && from < to) {
        const u32 next = next_char(text, from);
        if (!text_has_char(characters, Text{text.bytes + from, next - from})) break;
        from = next;
    }
    while (last && from < to) {
        u32 before = to - 1;
        while (before > from && !begins_char(text.bytes[before])) before--;
        if (!text_has_char(characters, Text{text.bytes + before, to - before})) break;
        to = before;
    }
    return Text{text.bytes + from, to - from};
}

/// The byte where character `number`, counted from 0, begins; the end if there are fewer.
TENON_DEVICE u32 char_start(Text text, i64 number) {
    u32 at = 0;
    for (; number > 0 && at < text.length; number--) at = next_char(text, at);
    return at;
}

/// The first byte where `part` is found; -1 where it is not.
TENON_DEVICE i64 text_find(Text text, Text part) {
    for (u64 at = 0; at + part.length <= text.length; at++) {
        if (same_bytes(text.bytes + at, part.bytes, part.length)) return (i64)at;
    }
    return -1;
}

/// A part of a text that is looked for: its first eight bytes from the lowest on, which bits of these count, and all of them.
struct Part {
    u64 head, mask;
    Text text;
};

/// The first byte from `from` on where the part is found; -1 where it is not. Looks at eight bytes at once: words that hold a
/// byte of the text are within its buffer (buffers begin and end at multiples of eight bytes).
TENON_DEVICE i64 text_find_part(Text text, i64 from, const Part& part) {
    const u64 EACH = 0x0101010101010101ull;
    i64 last = (i64)text.length - (i64)part.text.length;
    if (from < 0 || from > last || part.text.length == 0) return from > last ? -1 : from;
    const u64 start = (u64)text.bytes, end = start + text.length;
    const u64* word = reinterpret_cast<const u64*>((start + (u64)from) & ~7ull);
    u64 first = (part.head & 0xff) * EACH, low = *word;
    for (;; word++) {
        u64 next = (u64)(word + 1);
        u64 high = next < end ? word[1] : 0;
        // Bytes that the part may begin with; a few others with them.
        u64 differs = low ^ first;
        for (u64 found = (differs - EACH) & ~differs & EACH << 7; found; found &= found - 1) {
            u32 bit = (u32)__ffsll((i64)found) - 8;
            i64 at = (i64)((u64)word - start) + bit / 8;
            u64 own = bit ? low >> bit | high << (64 - bit) : low;
            if (((own ^ part.head) & part.mask) || at < from || at > last) continue;
            if (part.text.length <= 8 || same_bytes(text.bytes + at + 8, part.text.bytes + 8, part.text.length - 8))
                return at;
        }
        if ((i64)(next - start) > last) return -1;
        low = high;
    }
}

/// The place of the first character of `part`, counted from 1; 0 where it is not found.
TENON_DEVICE i64 text_position(Text text, Text part) {
    i64 at = text_find(text, part);
    return at < 0 ? 0 : text_chars(Text{text.bytes, (u32)at}) + 1;
}

/// The characters from place `from`, counted from 1 and possibly before the text; at most `count` places from there.
TENON_DEVICE Text text_part(Text text, i64 from, i64 count) {
    i64 before = from <= 1 ? 0 : from - 1;
    // Places before the text count too.
    if (from < 1) count += from - 1;
    u32 start = char_start(text, before);
    Text rest{text.bytes + start, text.length - start};
    return Text{rest.bytes, char_start(rest, count)};
}

/// The first `chars` characters; with a negative number, all but the last so many.
TENON_DEVICE Text text_left(Text text, i64 chars) {
    if (chars < 0) chars += text_chars(text);
    return Text{text.bytes, char_start(text, chars)};
}

/// The last `chars` characters; with a negative number, all but the first so many.
TENON_DEVICE Text text_right(Text text, i64 chars) {
    // The least number has no opposite.
    i64 before = chars >= 0 ? text_chars(text) - chars : chars == -chars ? (i64)text.length : -chars;
    u32 start = char_start(text, before);
    return Text{text.bytes + start, text.length - start};
}

TENON_DEVICE u8 ascii_lower(u8 byte) { return byte >= 'A' && byte <= 'Z' ? byte + 32 : byte; }

/// `text LIKE pattern`, with the backslash as escape: `%` takes any number of characters, `_` takes one. FOLD ignores
/// the case of ASCII letters. Where a piece after a `%` does not match, that `%` takes one character more; pieces before
/// it keep the place where they matched first, which never loses a match.
template <bool FOLD>
TENON_DEVICE bool text_like(Text text, Text pattern) {
    const u32 NONE = 0xffffffff;
    u32 at = 0, piece = 0, retry_piece = NONE, retry_at = 0;
    while (at < text.length) {
        if (piece < pattern.length) {
            u8 wanted = pattern.bytes[piece];
            if (wanted == '%') {
                retry_piece = ++piece;
                retry_at = at;
                continue;
            }
            if (wanted == '_') {
                piece++;
                at = next_char(text, at);
                continue;
            }
            u32 last = piece;
            if (wanted == '\\' && piece + 1 < pattern.length) wanted = pattern.bytes[++last];
            u8 own = text.bytes[at];
            if (own == wanted || (FOLD && ascii_lower(own) == ascii_lower(wanted))) {
                piece = last + 1;
                at++;
                continue;
            }
        }
        if (retry_piece == NONE) return false;
        retry_at = next_char(text, retry_at);
        at = retry_at;
        piece = retry_piece;
    }
    while (piece < pattern.length && pattern.bytes[piece] == '%') piece++;
    return piece == pattern.length;
}
