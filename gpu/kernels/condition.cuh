// Functions that generated conditions call, beyond those of texts: orders of floats, rounding.
#pragma once
#include "text.cuh"

/// Floats as integers in IEEE 754's total order, with both zeros equal. NaNs have one payload: a GPU gives another than
/// a CPU.
TENON_DEVICE i64 total_order(f64 v) {
    i64 bits = bit_cast<i64>(v == 0 ? (f64)0 : v);
    if (v != v) bits = (bits & (i64)(1ull << 63)) | (i64)(0x7ff8ull << 48);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
TENON_DEVICE i32 total_order(f32 v) {
    i32 bits = bit_cast<i32>(v == 0 ? (f32)0 : v);
    if (v != v) bits = (bits & (i32)(1u << 31)) | (i32)(0x7fc0u << 16);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}

/// A word that grows with a float, from whose it is got back; that of NaN, which is the last of all.
constexpr u64 NAN_ORDER = 0xfff8ull << 48;
TENON_DEVICE u64 order_word(f64 v) {
    u64 bits = bit_cast<u64>(v);
    return v != v ? NAN_ORDER : bits >> 63 ? ~bits : bits | 1ull << 63;
}
TENON_DEVICE f64 of_order_word(u64 word) {
    return bit_cast<f64>(word >> 63 ? word & ~(1ull << 63) : ~word);
}

/// The float without its sign bit.
TENON_DEVICE f64 magnitude(f64 v) { return bit_cast<f64>(bit_cast<u64>(v) & ~(1ull << 63)); }
TENON_DEVICE f32 magnitude(f32 v) { return bit_cast<f32>(bit_cast<u32>(v) & ~(1u << 31)); }

/// 1, 0 or -1; NaN of NaN.
TENON_DEVICE f64 signum(f64 v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : v == 0 ? 0.0 : v; }

TENON_DEVICE i128 bits_128(u64 high, u64 low) { return (i128)(((u128)high << 64) | low); }

/// Quotients of whole numbers of a decimal's `unit`s: towards zero, down, up, and to the nearest, halves away from zero.
TENON_DEVICE i128 units_trunc(i128 v, i128 unit) { return v / unit; }
TENON_DEVICE i128 units_floor(i128 v, i128 unit) { return v / unit - (v % unit < 0); }
TENON_DEVICE i128 units_ceil(i128 v, i128 unit) { return v / unit + (v % unit > 0); }
TENON_DEVICE i128 units_round(i128 v, i128 unit) {
    i128 rest = v % unit, far = rest < 0 ? -rest : rest;
    return v / unit + (far >= unit - far ? (v < 0 ? -1 : 1) : 0);
}
