// What NVRTC leaves out and kernels need, and the wrappers around inline PTX. The simulator's twin is `sim.cuh`.
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

// NVRTC has no `offsetof` without the standard headers; this is its compiler's own way to spell one.
#define TENON_OFFSETOF(Type, field) __INTADDR__(&(((Type*)0)->field))

// ---- kernels and shared memory -------------------------------------------------------------------------------

#define TENON_KERNEL(name, Params) extern "C" __global__ void name(const __grid_constant__ Params p)
#define TENON_KERNEL_BOUNDS(name, Params, max_threads, min_blocks)                                                \
    extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) name(const __grid_constant__ Params p)
#define TENON_SHARED(Type, name)                                                                                  \
    __shared__ __align__(16) u8 name##_storage[sizeof(Type)];                                                     \
    static_assert(alignof(Type) <= 16, "shared storage is 16-byte aligned");                                      \
    Type& name = *reinterpret_cast<Type*>(name##_storage)
#define TENON_SHARED_ARRAY(Type, name, count)                                                                     \
    __shared__ __align__(16) u8 name##_storage[sizeof(Type) * (count)];                                           \
    static_assert(alignof(Type) <= 16, "shared storage is 16-byte aligned");                                      \
    Type(&name)[count] = *reinterpret_cast<Type(*)[count]>(name##_storage)
extern __shared__ uint4 tenon_dynamic_shared[];
#define TENON_DYNAMIC_SHARED(Type, name) Type* name = reinterpret_cast<Type*>(tenon_dynamic_shared)

// ---- forward progress and faults -----------------------------------------------------------------------------

static __device__ __forceinline__ void tenon_spin_pause() { __nanosleep(20); }
#define TENON_ASSERT(condition)                                                                                   \
    do {                                                                                                          \
        if (!(condition)) __trap();                                                                               \
    } while (0)

// `int64` atomics that CUDA lacks: two's complement makes the unsigned ones right.
static __device__ __forceinline__ i64 atomicAdd(i64* a, i64 v) { return (i64)atomicAdd((u64*)a, (u64)v); }
static __device__ __forceinline__ i64 atomicExch(i64* a, i64 v) { return (i64)atomicExch((u64*)a, (u64)v); }
static __device__ __forceinline__ i64 atomicCAS(i64* a, i64 e, i64 v) { return (i64)atomicCAS((u64*)a, (u64)e, (u64)v); }
static __device__ __forceinline__ u64 atomicSub(u64* a, u64 v) { return atomicAdd(a, (u64)0 - v); }

// ---- loads and stores with an order, device scope: T of 4 or 8 bytes -------------------------------------------

template <class T>
static __device__ __forceinline__ T tenon_ld_order(const T* a, bool acquire) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "ordered loads take 4 or 8 bytes");
    T value;
    if constexpr (sizeof(T) == 4) {
        u32 bits;
        if (acquire) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(bits) : "l"(a) : "memory");
        else asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(bits) : "l"(a) : "memory");
        memcpy(&value, &bits, 4);
    } else {
        u64 bits;
        if (acquire) asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(bits) : "l"(a) : "memory");
        else asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(bits) : "l"(a) : "memory");
        memcpy(&value, &bits, 8);
    }
    return value;
}
template <class T>
static __device__ __forceinline__ void tenon_st_order(T* a, T v, bool release) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "ordered stores take 4 or 8 bytes");
    if constexpr (sizeof(T) == 4) {
        u32 bits;
        memcpy(&bits, &v, 4);
        if (release) asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(a), "r"(bits) : "memory");
        else asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(a), "r"(bits) : "memory");
    } else {
        u64 bits;
        memcpy(&bits, &v, 8);
        if (release) asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(a), "l"(bits) : "memory");
        else asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(a), "l"(bits) : "memory");
    }
}
template <class T>
static __device__ __forceinline__ T ld_acquire(const T* a) { return tenon_ld_order(a, true); }
template <class T>
static __device__ __forceinline__ T ld_relaxed(const T* a) { return tenon_ld_order(a, false); }
template <class T>
static __device__ __forceinline__ void st_release(T* a, T v) { tenon_st_order(a, v, true); }
template <class T>
static __device__ __forceinline__ void st_relaxed(T* a, T v) { tenon_st_order(a, v, false); }

// 16 bytes seen whole: value and status of a look-back descriptor in one access.
struct __align__(16) U64x2 {
    u64 x, y;
};
static __device__ __forceinline__ U64x2 ld_relaxed_16(const U64x2* a) {
    U64x2 v;
    asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(a) : "memory");
    return v;
}
static __device__ __forceinline__ void st_relaxed_16(U64x2* a, U64x2 v) {
    asm volatile("st.relaxed.gpu.v2.u64 [%0], {%1, %2};" ::"l"(a), "l"(v.x), "l"(v.y) : "memory");
}

// The lanes of the whole warp whose `value` has this bit as the caller's has it. Spelled in PTX, because the compiler
// makes twice as many instructions of a ballot and a selection.
static __device__ __forceinline__ u32 ballot_of_equal(u32 value, u32 bit) {
    u32 lanes;
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "and.b32 %0, %1, %2;\n\t"
        "setp.ne.u32 p, %0, 0;\n\t"
        "vote.ballot.sync.b32 %0, p, 0xffffffff;\n\t"
        "@!p not.b32 %0, %0;\n\t"
        "}"
        : "=r"(lanes)
        : "r"(value), "r"(bit));
    return lanes;
}

// ---- copies to shared memory that the thread does not wait for ---------------------------------------------------

// 8 or 16 bytes, both addresses multiples of that. The copying thread sees them after `copy_async_wait`.
template <int BYTES>
static __device__ __forceinline__ void copy_async(void* shared, const void* global) {
    static_assert(BYTES == 8 || BYTES == 16, "asynchronous copies take 8 or 16 bytes");
    u32 to = (u32)__cvta_generic_to_shared(shared);
    if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(global) : "memory");
}
static __device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
