// The build keys that a band allows a probe: build + low_offset <= probe <= build + high_offset, as a range of codes.
//
// Macros: KEY (u32, u64), DOMAIN (what the order-preserving bits stand for: 0 unsigned, 1 signed, 2 float).
#include "tenon.cuh"

struct BandParams {
    const KEY* probes;
    u64 items;
    u64 low_offset, high_offset;  // bits of an i64, or of an f64
    KEY* low;
    KEY* high;
};

constexpr u32 BITS = 8 * sizeof(KEY);
constexpr KEY SIGN = (KEY)1 << (BITS - 1), GREATEST = (KEY)~(KEY)0;

#if DOMAIN == 2
template <u64 BYTES>
struct FloatOf;
template <>
struct FloatOf<4> { typedef f32 type; };
template <>
struct FloatOf<8> { typedef f64 type; };
typedef FloatOf<sizeof(KEY)>::type Float;

TENON_DEVICE Float value_of(KEY code) { return bit_cast<Float>((KEY)(code & SIGN ? code ^ SIGN : ~code)); }
TENON_DEVICE KEY code_of(Float value) {
    KEY bits = bit_cast<KEY>(value);
    return bits & SIGN ? ~bits : bits ^ SIGN;
}

// Sums of the condition are rounded, and these differences too: the range is wider by more than both, and the condition
// itself decides within it. What is not finite allows everything.
TENON_DEVICE void range_of(const BandParams& p, KEY code, KEY& low, KEY& high) {
    constexpr f64 EPSILON = sizeof(KEY) == 4 ? 0x1p-21 : 0x1p-50, LEAST = sizeof(KEY) == 4 ? 0x1p-120 : 0x1p-1000;
    f64 value = value_of(code), low_offset = bit_cast<f64>(p.low_offset), high_offset = bit_cast<f64>(p.high_offset);
    f64 size = (value < 0 ? -value : value) + (low_offset < 0 ? -low_offset : low_offset) +
               (high_offset < 0 ? -high_offset : high_offset);
    f64 slack = size * EPSILON + LEAST, from = value - high_offset - slack, to = value - low_offset + slack;
    low = 0;
    high = GREATEST;
    if (!(size < (sizeof(KEY) == 4 ? 0x1p100 : 0x1p1000))) return;
    low = code_of((Float)from);
    high = code_of((Float)to);
}
#else
// Exact: 65 bits are enough. Beyond the type's ends a range is cut, and one that lies outside is empty (it crosses).
TENON_DEVICE void range_of(const BandParams& p, KEY code, KEY& low, KEY& high) {
    i128 least = DOMAIN == 1 ? -(i128)SIGN : 0, greatest = least + (i128)GREATEST;
    i128 value = least + (i128)code;
    i128 from = value - (i64)p.high_offset, to = value - (i64)p.low_offset;
    bool empty = from > to || from > greatest || to < least;
    low = empty ? 1 : (KEY)((from < least ? least : from) - least);
    high = empty ? 0 : (KEY)((to > greatest ? greatest : to) - least);
}
#endif

TENON_KERNEL(band, BandParams) {
    for (u64 i = global_thread(); i < p.items; i += grid_threads()) {
        KEY low, high;
        range_of(p, p.probes[i], low, high);
        p.low[i] = low;
        p.high[i] = high;
    }
}
