// The CUDA builtins for the simulator: the same kernel sources, compiled by the host's C++ compiler.
//
// Each CUDA thread is a fiber with its own 64 KiB stack, aligned to 64 KiB. The thread's record (below) lies near
// the top of that stack, so a thread finds itself from its stack pointer: no thread-local storage, no argument.
// The 64-byte "colour" spreads the records of neighbouring fibers over the sets of the L1 cache.
// The layout and the vtable are mirrored in `src/sim/abi.rs`.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef unsigned __int128 u128;
typedef __int128 i128;
typedef __SIZE_TYPE__ size_t;

#define TENON_OFFSETOF(Type, field) __builtin_offsetof(Type, field)
#define memcpy __builtin_memcpy
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __constant__ const
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))

struct tenon_dim3 {
    u32 x, y, z;
};

struct TenonSimThread;

struct TenonSimVtable {
    u32 (*barrier)(TenonSimThread*, u32 kind, u32 predicate, u32 line);
    u64 (*collective)(TenonSimThread*, u32 op, u32 mask, u64 value, u32 arg, u32 width, u32 line);
    void (*spin)(TenonSimThread*);
    void (*trap)(TenonSimThread*, const char* file, u32 line, const char* what);
    void* (*static_shared)(TenonSimThread*, const void* key, u64 bytes, u64 align);
};

struct TenonSimThread {
    tenon_dim3 thread_idx, block_idx, block_dim, grid_dim;
    u32 lane, warp;
    u8* dynamic_shared;
    const TenonSimVtable* vtable;
    u64 polls;
};

static __forceinline__ TenonSimThread* tenon_self() {
    u64 sp;
#if defined(__x86_64__)
    asm("mov %%rsp, %0" : "=r"(sp));
#elif defined(__aarch64__)
    asm("mov %0, sp" : "=r"(sp));
#else
#error "the simulator runs on x86-64 and aarch64"
#endif
    u64 index = sp >> 16;
    return (TenonSimThread*)(((index + 1) << 16) - 8192 + ((index & 63) << 6));
}

#define threadIdx (tenon_self()->thread_idx)
#define blockIdx (tenon_self()->block_idx)
#define blockDim (tenon_self()->block_dim)
#define gridDim (tenon_self()->grid_dim)
static const int warpSize = 32;

// ---- kernels and shared memory -------------------------------------------------------------------------------

#define TENON_KERNEL(name, Params)                                                                                \
    static void name##_body(const Params& p);                                                                     \
    extern "C" __attribute__((visibility("default"))) const u64 name##_param_bytes = sizeof(Params);              \
    extern "C" __attribute__((visibility("default"))) void name(const void* p) { name##_body(*(const Params*)p); } \
    static void name##_body(const Params& p)
#define TENON_KERNEL_BOUNDS(name, Params, max_threads, min_blocks)                                                \
    extern "C" __attribute__((visibility("default"))) const u64 name##_max_threads = (max_threads);               \
    TENON_KERNEL(name, Params)

#define TENON_SHARED(Type, name)                                                                                  \
    static const char name##_key = 0;                                                                             \
    Type& name = *(Type*)tenon_self()->vtable->static_shared(tenon_self(), &name##_key, sizeof(Type), alignof(Type))
#define TENON_SHARED_ARRAY(Type, name, count)                                                                     \
    static const char name##_key = 0;                                                                             \
    Type(&name)[count] = *(Type(*)[count])tenon_self()->vtable->static_shared(                                    \
        tenon_self(), &name##_key, sizeof(Type[count]), alignof(Type))
#define TENON_DYNAMIC_SHARED(Type, name) Type* name = (Type*)tenon_self()->dynamic_shared

// ---- barriers ------------------------------------------------------------------------------------------------

static __forceinline__ void __syncthreads(u32 line = __builtin_LINE()) {
    tenon_self()->vtable->barrier(tenon_self(), 0, 0, line);
}
static __forceinline__ int __syncthreads_count(int predicate, u32 line = __builtin_LINE()) {
    return (int)tenon_self()->vtable->barrier(tenon_self(), 1, predicate != 0, line);
}
static __forceinline__ int __syncthreads_and(int predicate, u32 line = __builtin_LINE()) {
    return (int)tenon_self()->vtable->barrier(tenon_self(), 2, predicate != 0, line);
}
static __forceinline__ int __syncthreads_or(int predicate, u32 line = __builtin_LINE()) {
    return (int)tenon_self()->vtable->barrier(tenon_self(), 3, predicate != 0, line);
}

// ---- warp collectives: the operation numbers are those of `sim::abi::WarpOp` -----------------------------------

static __forceinline__ u64 tenon_collective(u32 op, u32 mask, u64 value, u32 arg, u32 width, u32 line) {
    return tenon_self()->vtable->collective(tenon_self(), op, mask, value, arg, width, line);
}
template <class T>
static __forceinline__ u64 tenon_to_bits(T value) {
    static_assert(sizeof(T) <= 8, "warp collectives take values of at most 8 bytes");
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
static __forceinline__ T tenon_from_bits(u64 bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

static __forceinline__ void __syncwarp(u32 mask = 0xffffffffu, u32 line = __builtin_LINE()) {
    tenon_collective(0, mask, 0, 0, 32, line);
}
template <class T>
static __forceinline__ T __shfl_sync(u32 mask, T v, int lane, int width = 32, u32 line = __builtin_LINE()) {
    return tenon_from_bits<T>(tenon_collective(1, mask, tenon_to_bits(v), (u32)lane, width, line));
}
template <class T>
static __forceinline__ T __shfl_up_sync(u32 mask, T v, u32 delta, int width = 32, u32 line = __builtin_LINE()) {
    return tenon_from_bits<T>(tenon_collective(2, mask, tenon_to_bits(v), delta, width, line));
}
template <class T>
static __forceinline__ T __shfl_down_sync(u32 mask, T v, u32 delta, int width = 32, u32 line = __builtin_LINE()) {
    return tenon_from_bits<T>(tenon_collective(3, mask, tenon_to_bits(v), delta, width, line));
}
template <class T>
static __forceinline__ T __shfl_xor_sync(u32 mask, T v, int flip, int width = 32, u32 line = __builtin_LINE()) {
    return tenon_from_bits<T>(tenon_collective(4, mask, tenon_to_bits(v), (u32)flip, width, line));
}
static __forceinline__ u32 __ballot_sync(u32 mask, int predicate, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(5, mask, predicate != 0, 0, 32, line);
}
static __forceinline__ int __any_sync(u32 mask, int predicate, u32 line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, line) != 0;
}
static __forceinline__ int __all_sync(u32 mask, int predicate, u32 line = __builtin_LINE()) {
    return __ballot_sync(mask, !predicate, line) == 0;
}
template <class T>
static __forceinline__ u32 __match_any_sync(u32 mask, T v, u32 line = __builtin_LINE()) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync takes 32- or 64-bit values");
    return (u32)tenon_collective(6, mask, tenon_to_bits(v), 0, 32, line);
}
// Any subset of the live lanes that holds the caller is a legal answer; the caller alone is the one that shows
// code which takes the mask for the converged warp.
static __forceinline__ u32 __activemask() { return 1u << tenon_self()->lane; }
static __forceinline__ u32 __reduce_add_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(7, mask, v, 0, 32, line);
}
static __forceinline__ int __reduce_add_sync(u32 mask, int v, u32 line = __builtin_LINE()) {
    return (int)tenon_collective(7, mask, (u32)v, 0, 32, line);
}
static __forceinline__ u32 __reduce_min_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(8, mask, v, 0, 32, line);
}
static __forceinline__ u32 __reduce_max_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(9, mask, v, 0, 32, line);
}
static __forceinline__ int __reduce_min_sync(u32 mask, int v, u32 line = __builtin_LINE()) {
    return (int)tenon_collective(10, mask, (u32)v, 0, 32, line);
}
static __forceinline__ int __reduce_max_sync(u32 mask, int v, u32 line = __builtin_LINE()) {
    return (int)tenon_collective(11, mask, (u32)v, 0, 32, line);
}
static __forceinline__ u32 __reduce_and_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(12, mask, v, 0, 32, line);
}
static __forceinline__ u32 __reduce_or_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(13, mask, v, 0, 32, line);
}
static __forceinline__ u32 __reduce_xor_sync(u32 mask, u32 v, u32 line = __builtin_LINE()) {
    return (u32)tenon_collective(14, mask, v, 0, 32, line);
}

static __forceinline__ u32 ballot_of_equal(u32 value, u32 bit) {
    u32 lanes = __ballot_sync(0xffffffffu, (value & bit) != 0);
    return value & bit ? lanes : ~lanes;
}

// ---- forward progress and faults -----------------------------------------------------------------------------

static __forceinline__ void tenon_spin_pause() { tenon_self()->vtable->spin(tenon_self()); }
// Called by every load or atomic on which code might spin: yields now and then, so that a loop without
// `tenon_spin_pause` still lets the others run.
static __forceinline__ void tenon_poll() {
    if ((++tenon_self()->polls & 1023) == 0) tenon_spin_pause();
}
static __forceinline__ void __nanosleep(u32) { tenon_spin_pause(); }
static __forceinline__ void __trap() { tenon_self()->vtable->trap(tenon_self(), "", 0, "__trap()"); }
#define TENON_ASSERT(condition)                                                                                   \
    do {                                                                                                          \
        if (!(condition)) tenon_self()->vtable->trap(tenon_self(), __FILE__, __LINE__, #condition);               \
    } while (0)
static __forceinline__ void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __forceinline__ void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __forceinline__ void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __forceinline__ i64 clock64() { return (i64)++tenon_self()->polls; }

// ---- atomics (relaxed, as on the device) -----------------------------------------------------------------------

#define TENON_SIM_ATOMIC(T)                                                                                       \
    static __forceinline__ T atomicAdd(T* a, T v) { return __atomic_fetch_add(a, v, __ATOMIC_RELAXED); }          \
    static __forceinline__ T atomicSub(T* a, T v) { return __atomic_fetch_sub(a, v, __ATOMIC_RELAXED); }          \
    static __forceinline__ T atomicAnd(T* a, T v) { return __atomic_fetch_and(a, v, __ATOMIC_RELAXED); }          \
    static __forceinline__ T atomicOr(T* a, T v) { return __atomic_fetch_or(a, v, __ATOMIC_RELAXED); }            \
    static __forceinline__ T atomicXor(T* a, T v) { return __atomic_fetch_xor(a, v, __ATOMIC_RELAXED); }          \
    static __forceinline__ T atomicExch(T* a, T v) {                                                              \
        tenon_poll();                                                                                             \
        return __atomic_exchange_n(a, v, __ATOMIC_RELAXED);                                                       \
    }                                                                                                             \
    static __forceinline__ T atomicCAS(T* a, T expected, T v) {                                                   \
        tenon_poll();                                                                                             \
        __atomic_compare_exchange_n(a, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                  \
        return expected;                                                                                          \
    }                                                                                                             \
    static __forceinline__ T atomicMin(T* a, T v) {                                                               \
        T old = __atomic_load_n(a, __ATOMIC_RELAXED);                                                             \
        while (v < old && !__atomic_compare_exchange_n(a, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                               \
    }                                                                                                             \
    static __forceinline__ T atomicMax(T* a, T v) {                                                               \
        T old = __atomic_load_n(a, __ATOMIC_RELAXED);                                                             \
        while (v > old && !__atomic_compare_exchange_n(a, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                               \
    }
TENON_SIM_ATOMIC(u32)
TENON_SIM_ATOMIC(i32)
TENON_SIM_ATOMIC(u64)
TENON_SIM_ATOMIC(i64)
#undef TENON_SIM_ATOMIC
template <class F, class Bits>
static __forceinline__ F tenon_atomic_add_float(F* a, F v) {
    Bits old = __atomic_load_n((Bits*)a, __ATOMIC_RELAXED), next;
    F sum;
    do {
        sum = tenon_from_bits<F>(old) + v;
        next = (Bits)tenon_to_bits(sum);
    } while (!__atomic_compare_exchange_n((Bits*)a, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return tenon_from_bits<F>(old);
}
static __forceinline__ f32 atomicAdd(f32* a, f32 v) { return tenon_atomic_add_float<f32, u32>(a, v); }
static __forceinline__ f64 atomicAdd(f64* a, f64 v) { return tenon_atomic_add_float<f64, u64>(a, v); }

// ---- loads and stores with an order: T of 4 or 8 bytes ---------------------------------------------------------

template <class T>
static __forceinline__ T ld_acquire(const T* a) {
    tenon_poll();
    return __atomic_load_n(a, __ATOMIC_ACQUIRE);
}
template <class T>
static __forceinline__ T ld_relaxed(const T* a) {
    tenon_poll();
    return __atomic_load_n(a, __ATOMIC_RELAXED);
}
template <class T>
static __forceinline__ void st_release(T* a, T v) {
    __atomic_store_n(a, v, __ATOMIC_RELEASE);
}
template <class T>
static __forceinline__ void st_relaxed(T* a, T v) {
    __atomic_store_n(a, v, __ATOMIC_RELAXED);
}
struct __align__(16) U64x2 {
    u64 x, y;
};
typedef u64 tenon_v2u64 __attribute__((vector_size(16)));
static __forceinline__ U64x2 ld_relaxed_16(const U64x2* a) {
    tenon_poll();
    tenon_v2u64 v = *(const volatile tenon_v2u64*)a;
    return U64x2{v[0], v[1]};
}
static __forceinline__ void st_relaxed_16(U64x2* a, U64x2 v) {
    *(volatile tenon_v2u64*)a = tenon_v2u64{v.x, v.y};
}

// Copies to shared memory that the thread does not wait for: here they happen at once.
template <int BYTES>
static __forceinline__ void copy_async(void* shared, const void* global) {
    TENON_ASSERT((u64)shared % BYTES == 0 && (u64)global % BYTES == 0);
    memcpy(shared, global, BYTES);
}
static __forceinline__ void copy_async_wait() {}

template <class T>
static __forceinline__ T __ldg(const T* a) { return *a; }
template <class T>
static __forceinline__ T __ldcs(const T* a) { return *a; }
template <class T>
static __forceinline__ T __ldcg(const T* a) { return *(const volatile T*)a; }
template <class T>
static __forceinline__ void __stcs(T* a, T v) { *a = v; }
template <class T>
static __forceinline__ void __stcg(T* a, T v) { *a = v; }

// ---- bits and numbers ------------------------------------------------------------------------------------------

static __forceinline__ int __popc(u32 v) { return __builtin_popcount(v); }
static __forceinline__ int __popcll(u64 v) { return __builtin_popcountll(v); }
static __forceinline__ int __clz(i32 v) { return v ? __builtin_clz((u32)v) : 32; }
static __forceinline__ int __clzll(i64 v) { return v ? __builtin_clzll((u64)v) : 64; }
static __forceinline__ int __ffs(i32 v) { return __builtin_ffs(v); }
static __forceinline__ int __ffsll(i64 v) { return __builtin_ffsll(v); }
static __forceinline__ u64 __brevll(u64 v) {
    v = ((v >> 1) & 0x5555555555555555ull) | ((v & 0x5555555555555555ull) << 1);
    v = ((v >> 2) & 0x3333333333333333ull) | ((v & 0x3333333333333333ull) << 2);
    v = ((v >> 4) & 0x0f0f0f0f0f0f0f0full) | ((v & 0x0f0f0f0f0f0f0f0full) << 4);
    return __builtin_bswap64(v);
}
static __forceinline__ u32 __brev(u32 v) { return (u32)(__brevll(v) >> 32); }
static __forceinline__ u32 __umulhi(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }
static __forceinline__ u64 __umul64hi(u64 a, u64 b) { return (u64)(((u128)a * b) >> 64); }
static __forceinline__ u32 __funnelshift_l(u32 lo, u32 hi, u32 s) { return (u32)(((((u64)hi << 32) | lo) << (s & 31)) >> 32); }
static __forceinline__ u32 __funnelshift_r(u32 lo, u32 hi, u32 s) { return (u32)((((u64)hi << 32) | lo) >> (s & 31)); }
static __forceinline__ u32 __float_as_uint(f32 v) { return (u32)tenon_to_bits(v); }
static __forceinline__ f32 __uint_as_float(u32 v) { return tenon_from_bits<f32>(v); }
static __forceinline__ i64 __double_as_longlong(f64 v) { return (i64)tenon_to_bits(v); }
static __forceinline__ f64 __longlong_as_double(i64 v) { return tenon_from_bits<f64>((u64)v); }
extern "C" {
f64 sqrt(f64) noexcept;
f64 floor(f64) noexcept;
f64 ceil(f64) noexcept;
f64 trunc(f64) noexcept;
f64 rint(f64) noexcept;
f64 fabs(f64) noexcept;
f64 fmod(f64, f64) noexcept;
f64 pow(f64, f64) noexcept;
f64 exp(f64) noexcept;
f64 log(f64) noexcept;
f64 log2(f64) noexcept;
f64 log10(f64) noexcept;
}
