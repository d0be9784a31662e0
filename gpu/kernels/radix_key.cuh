// Keys as numbers whose unsigned order is the wanted order, and the digits of those numbers.
// Macros: KEY (element type), KEY_FLOAT (0 or 1). `code.cuh`, generated, may define `code_of` over a key instead.
#pragma once
#include "tenon.cuh"

/// The unsigned number that holds a key: 32 bits at least.
template <u32 bytes>
struct BitsOf {
    typedef u32 Type;
};
template <>
struct BitsOf<8> {
    typedef u64 Type;
};
template <>
struct BitsOf<16> {
    typedef u128 Type;
};
typedef typename BitsOf<sizeof(KEY)>::Type KeyBits;

/// Bits of a key in an order-preserving form, but for sign and direction, which `CodeParams::flip` adds.
/// Floats: the sign decides whether all bits turn over; every NaN is one number above infinity, and -0 is 0.
TENON_DEVICE KeyBits ordered_bits(KEY key) {
#if KEY_FLOAT
    KeyBits sign = (KeyBits)1 << (8 * sizeof(KEY) - 1);
    KeyBits bits = bit_cast<KeyBits>(key);
    if (key != key) return ~(KeyBits)0;
    if (bits == sign) bits = 0;
    return bits & sign ? ~bits : bits | sign;
#else
    return (KeyBits)key;
#endif
}

/// What turns a key into a partition number or a sortable number.
struct CodeParams {
    u64 literals[4];
    u32 shift, mask;
    u32 code_max;    // of custom codes: larger ones count as this
    u32 digit_flip;  // of other codes: the digit of the bits to turn over
};

#ifdef CUSTOM_CODE
struct CodeLiterals {
    const u64* bits;
    template <class L>
    __device__ __forceinline__ L get(int i) const {
        L value;
        memcpy(&value, &bits[i], sizeof(L));
        return value;
    }
};
typedef u32 Code;
#include "code.cuh"
TENON_DEVICE Code code_of(KEY key, const CodeParams& c) {
    return min_of<Code>(custom_code(key, CodeLiterals{c.literals}), c.code_max);
}
#else
typedef KeyBits Code;
/// Literals 0 and 1 are the low and high half of the bits to turn over: sign of integers, all bits for descending.
TENON_DEVICE Code code_of(KEY key, const CodeParams& c) {
    if constexpr (sizeof(KEY) == 16) {
        return ordered_bits(key) ^ ((u128)c.literals[1] << 64 | c.literals[0]);
    } else {
        return ordered_bits(key) ^ (Code)c.literals[0];
    }
}
#endif

/// The digit of a code.
TENON_DEVICE u32 digit_of(Code code, u32 shift, u32 mask) { return (u32)(code >> shift) & mask; }

/// The digit of a key at the parameters' shift. Bits are turned over after the shift: it is cheaper there.
TENON_DEVICE u32 digit_of_key(KEY key, const CodeParams& c) {
#ifdef CUSTOM_CODE
    return digit_of(code_of(key, c), c.shift, c.mask);
#else
    return ((u32)(ordered_bits(key) >> c.shift) & c.mask) ^ c.digit_flip;
#endif
}
