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
/// A decimal beside one with fewer digits, of which a unit is so many of its own: below, equal to or above 0, as the one with
/// fewer is to it.
TENON_DEVICE i64 compare_units(i128 few, i128 many, i128 unit) {
    const i128 units = many / unit, rest = many % unit;
    if (few != units) return few < units ? -1 : 1;
    return rest > 0 ? -1 : rest < 0;
}

/// A decimal's power of 10000, and its digit there: PostgreSQL's weight and first digit of base 10000.
struct Leading {
    i32 weight;
    u32 first;

    static TENON_METHOD Leading of(i128 decimal, i32 after) {
        u128 unscaled = decimal < 0 ? -(u128)decimal : (u128)decimal, power = 1;
        i32 digits = 0;
        while (digits < 38 && unscaled >= power) {
            power *= 10;
            digits++;
        }
        if (digits == 38 && unscaled >= power) digits = 39;
        if (digits == 0) return Leading{0, 0};
        const i32 top = digits - 1 - after;
        // Towards minus infinity.
        const i32 weight = top >= 0 ? top / 4 : -((3 - top) / 4), wanted = top - weight * 4 + 1;
        for (; digits > wanted; digits--) unscaled /= 10;
        for (; digits < wanted; digits++) unscaled *= 10;
        return Leading{weight, (u32)unscaled};
    }
};
/// The digits after the point of a quotient (PostgreSQL's `select_div_scale`: 16 significant digits at least, and those that
/// both operands show).
TENON_DEVICE i64 quotient_scale(Leading a, Leading b, i64 shown_a, i64 shown_b) {
    const i64 scale = 16 - 4 * (a.weight - b.weight - (a.first <= b.first));
    const i64 shown = shown_a > shown_b ? shown_a : shown_b;
    return scale > shown ? (scale > 0 ? scale : 0) : shown;
}

/// A numeric as a decimal, and how many digits after the point it shows; whether it has room there.
struct Quotient {
    i128 value;
    i64 shown;
    bool fits;
};
constexpr u128 DECIMAL_MAX = ((u128)1 << 126);
TENON_DEVICE u128 power_of_10(i32 digits) {
    u128 power = 1;
    for (; digits > 0; digits--) power *= 10;
    return power;
}
/// A number with `scale` digits after the point, which it shows, told with `digits`.
TENON_DEVICE Quotient told_with(u128 number, i64 scale, i32 digits, i128 bound) {
    for (i64 at = scale; at > digits; at--) {
        if (number % 10 != 0) return Quotient{0, 0, false};
        number /= 10;
    }
    for (i64 at = scale; at < digits; at++) {
        if (number >= DECIMAL_MAX / 10) return Quotient{0, 0, false};
        number *= 10;
    }
    if (number > (u128)bound) return Quotient{0, 0, false};
    return Quotient{(i128)number, scale, true};
}
/// `a / b`, both with so many digits after the point, rounded at PostgreSQL's scale and told with `digits`.
TENON_DEVICE Quotient numeric_quotient(i128 a, i32 after_a, i64 shown_a, i128 b, i32 after_b, i64 shown_b, i32 digits,
                                       i128 bound) {
    if (b == 0) return Quotient{0, 0, false};
    const i64 scale = quotient_scale(Leading::of(a, after_a), Leading::of(b, after_b), shown_a, shown_b);
    u128 rest = a < 0 ? -(u128)a : (u128)a, by = b < 0 ? -(u128)b : (u128)b;
    if (rest == 0) return Quotient{0, scale, true};
    if (scale > 100) return Quotient{0, 0, false};
    i32 raise = (i32)scale + after_b - after_a;
    for (; raise < 0; raise++) {
        if (by >= DECIMAL_MAX / 10) return Quotient{0, 0, false};
        by *= 10;
    }
    u128 quotient = rest / by;
    rest %= by;
    // As many digits at once as the rest has room for.
    const i32 step_max = by >> 63 == 0 ? 19 : by >> 95 == 0 ? 9 : 1;
    if (by >= DECIMAL_MAX / 10) return Quotient{0, 0, false};
    while (raise > 0) {
        const i32 step = raise < step_max ? raise : step_max;
        const u128 unit = power_of_10(step);
        if (quotient != 0 && quotient >= DECIMAL_MAX / unit) return Quotient{0, 0, false};
        rest *= unit;
        quotient = quotient * unit + rest / by;
        rest %= by;
        raise -= step;
    }
    if (rest >= by - rest) quotient++;
    Quotient found = told_with(quotient, scale, digits, bound);
    if ((a < 0) != (b < 0)) found.value = -found.value;
    return found;
}

/// The root of a number with `scale` digits after the point, with as many, told with `digits`. Digit by digit, as by hand.
TENON_DEVICE Quotient numeric_root(u128 number, i32 scale, i32 digits, i128 bound) {
    i32 length = scale;
    for (u128 rest = number; rest != 0; rest /= 10) length++;
    u128 root = 0, rest = 0;
    for (i32 at = length + (length & 1) - 2; at >= 0; at -= 2) {
        if (root >= DECIMAL_MAX / 1000) return Quotient{0, 0, false};
        // Behind the number's own digits there are as many zeros as it has digits after the point.
        const i32 own = at - scale;
        const u32 pair = own >= 0 ? (u32)(number / power_of_10(own) % 100) : own == -1 ? (u32)(number % 10) * 10 : 0;
        rest = rest * 100 + pair;
        root *= 10;
        for (; rest >= 2 * root + 1; root++) rest -= 2 * root + 1;
    }
    if (rest > root) root++;
    return told_with(root, scale, digits, bound);
}

/// What the numerator of a variance is where 128 bits do not hold it.
constexpr u128 NO_SPREAD = ~(u128)0;
/// The numerator of the variance of so many numbers: what is not above 0 is 0.
TENON_DEVICE u128 spread_over(i128 sum, i128 squares, u64 count) {
    const u128 own = sum < 0 ? -(u128)sum : (u128)sum;
    if (count == 0 || squares < 0) return 0;
    if (own >> 63 != 0 || (u128)squares > DECIMAL_MAX / count) return NO_SPREAD;
    const u128 all = (u128)squares * count;
    return all > own * own ? all - own * own : 0;
}

/// A result, and whether 128 bits hold it.
struct Checked {
    i128 value;
    bool fits;
};
TENON_DEVICE Checked checked_add(i128 a, i128 b) {
    const i128 sum = (i128)((u128)a + (u128)b);
    return Checked{sum, ((a ^ sum) & (b ^ sum)) >= 0};
}
TENON_DEVICE Checked checked_subtract(i128 a, i128 b) {
    const i128 rest = (i128)((u128)a - (u128)b);
    return Checked{rest, ((a ^ b) & (a ^ rest)) >= 0};
}
TENON_DEVICE Checked checked_multiply(i128 a, i128 b) {
    const u128 x = a < 0 ? -(u128)a : (u128)a, y = b < 0 ? -(u128)b : (u128)b;
    const u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    if (x_high != 0 && y_high != 0) return Checked{0, false};
    // One of the two has 64 bits alone.
    const u128 crossed = x_high != 0 ? (u128)x_high * (u64)y : (u128)y_high * (u64)x;
    const u128 below = (u128)(u64)x * (u64)y, above = crossed + (below >> 64);
    if (above >> 63 != 0) return Checked{0, false};
    const u128 product = above << 64 | (u64)below;
    return Checked{(a < 0) != (b < 0) ? -(i128)product : (i128)product, true};
}

TENON_DEVICE i128 units_floor(i128 v, i128 unit) { return v / unit - (v % unit < 0); }
TENON_DEVICE i128 units_ceil(i128 v, i128 unit) { return v / unit + (v % unit > 0); }
TENON_DEVICE i128 units_round(i128 v, i128 unit) {
    i128 rest = v % unit, far = rest < 0 ? -rest : rest;
    return v / unit + (far >= unit - far ? (v < 0 ? -1 : 1) : 0);
}
