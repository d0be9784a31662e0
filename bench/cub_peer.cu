// CUB's times for the rows of `bench_primitives` that it has a counterpart for, in the same format:
// `row NAME ITEMS MS`. Build: nvcc -O3 -std=c++17 -arch=native -o cub_peer cub_peer.cu
// Same method: events around each run, the median of 15 after 3 warm-ups, inputs rotating beyond the L2 cache,
// temporary storage allocated once.
#include <cub/cub.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t code = (call);                                                                           \
        if (code != cudaSuccess) {                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(code));                    \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

typedef uint32_t u32;
typedef uint64_t u64;

__host__ __device__ u64 random_at(u64 index, u64 salt) {
    u64 z = (index + salt) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

template <class T>
__global__ void fill_random(T* output, u64 items, u64 salt, u64 modulus) {
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < items) output[i] = (T)(modulus ? random_at(i, salt) % modulus : random_at(i, salt));
}

template <class T>
struct Buffer {
    T* data = nullptr;
    explicit Buffer(u64 items) { CHECK(cudaMalloc(&data, items * sizeof(T) + 16)); }
    Buffer(Buffer&& other) : data(other.data) { other.data = nullptr; }
    ~Buffer() {
        if (data) CHECK(cudaFree(data));
    }
};

template <class T>
Buffer<T> random_buffer(u64 items, u64 salt, u64 modulus = 0) {
    Buffer<T> buffer(items);
    fill_random<<<(unsigned)((items + 255) / 256), 256>>>(buffer.data, items, salt, modulus);
    CHECK(cudaGetLastError());
    return buffer;
}

static const char* filter = nullptr;

static std::string size_text(u64 items) { return std::to_string(items >> 20) + "M"; }

static bool wants(const std::string& name) { return !filter || name.find(filter) != std::string::npos; }

// `f(temporary, bytes, run)`: CUB's convention, a null temporary asks for its size.
static void row(const std::string& name, u64 items, const std::function<cudaError_t(void*, size_t&, int)>& f) {
    if (!wants(name)) return;
    size_t bytes = 0;
    CHECK(f(nullptr, bytes, 0));
    Buffer<char> temporary(bytes + 1);
    const int warm_ups = 3, repeats = 15;
    std::vector<cudaEvent_t> marks(repeats + 1);
    for (auto& mark : marks) CHECK(cudaEventCreate(&mark));
    for (int run = 0; run < warm_ups; run++) CHECK(f(temporary.data, bytes, run));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(marks[0]));
    for (int run = 0; run < repeats; run++) {
        CHECK(f(temporary.data, bytes, warm_ups + run));
        CHECK(cudaEventRecord(marks[run + 1]));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<float> times(repeats);
    for (int run = 0; run < repeats; run++) CHECK(cudaEventElapsedTime(&times[run], marks[run], marks[run + 1]));
    std::sort(times.begin(), times.end());
    for (auto& mark : marks) CHECK(cudaEventDestroy(mark));
    printf("%-34s %10llu %9.4f\n", name.c_str(), (unsigned long long)items, times[repeats / 2]);
    fflush(stdout);
}

template <class T>
struct Sets {
    std::vector<Buffer<T>> buffers;
    T* operator[](int run) { return buffers[run % buffers.size()].data; }
};
static int set_count(u64 bytes) { return (int)std::min<u64>(8, std::max<u64>(1, ((200ull << 20) + bytes - 1) / bytes)); }
template <class T>
Sets<T> inputs(u64 items, u64 set_bytes, u64 modulus = 0) {
    Sets<T> sets;
    for (int s = 0; s < set_count(set_bytes); s++) sets.buffers.push_back(random_buffer<T>(items, s, modulus));
    return sets;
}
template <class T>
Sets<T> outputs(u64 items, u64 set_bytes) {
    Sets<T> sets;
    for (int s = 0; s < set_count(set_bytes); s++) sets.buffers.emplace_back(items);
    return sets;
}

template <class K>
void sort_keys(const char* type, u64 items) {
    std::string name = std::string("sort.keys.") + type + "." + size_text(items);
    if (!wants(name)) return;
    auto in = inputs<K>(items, items * sizeof(K) * 2);
    auto out = outputs<K>(items, items * sizeof(K) * 2);
    row(name, items, [&](void* t, size_t& b, int run) { return cub::DeviceRadixSort::SortKeys(t, b, in[run], out[run], items); });
}

template <class K, class V>
void sort_pairs(const char* type, u64 items, int bits = 0) {
    std::string name = bits ? "split." + std::to_string(1 << bits) + "." + type + "." + size_text(items)
                            : std::string("sort.pairs.") + type + "." + size_text(items);
    if (!wants(name)) return;
    u64 bytes = items * (sizeof(K) + sizeof(V)) * 2;
    auto in = inputs<K>(items, bytes), out = outputs<K>(items, bytes);
    auto values = inputs<V>(items, bytes), values_out = outputs<V>(items, bytes);
    row(name, items, [&](void* t, size_t& b, int run) {
        return cub::DeviceRadixSort::SortPairs(t, b, in[run], out[run], values[run], values_out[run], items, 0,
                                               bits ? bits : (int)sizeof(K) * 8);
    });
}

struct Odd {
    __host__ __device__ bool operator()(u32 x) const { return x & 1; }
};

template <class T>
__global__ void gather_kernel(const T* source, const u32* indexes, T* output, u64 items) {
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < items) output[i] = source[indexes[i]];
}

static void scans(u64 items) {
    auto in = inputs<u32>(items, items * 8);
    auto out = outputs<u32>(items, items * 8);
    row("scan.exclusive.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceScan::ExclusiveSum(t, b, in[run], out[run], items);
    });
    row("scan.inclusive.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceScan::InclusiveSum(t, b, in[run], out[run], items);
    });
    Buffer<u64> count(1);
    row("select.u32.50%." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceSelect::If(t, b, in[run], out[run], count.data, items, Odd());
    });
    auto flags = inputs<uint8_t>(items, items * 8, 2);
    row("select.flagged.u32.50%." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceSelect::Flagged(t, b, in[run], flags[run], out[run], count.data, items);
    });
    row("reduce.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceReduce::Sum(t, b, in[run], count.data, items);
    });
    for (int bins : {256, 4096}) {
        auto keys = inputs<u32>(items, items * 4, bins);
        Buffer<u32> histogram(bins);
        row("histogram." + std::to_string(bins) + ".u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
            return cub::DeviceHistogram::HistogramEven(t, b, keys[run], histogram.data, bins + 1, 0u, (u32)bins, items);
        });
    }
    // Runs of 8 on average: sorted numbers below items / 8.
    auto unsorted = inputs<u32>(items, items * 4, items / 8);
    Sets<u32> sorted = outputs<u32>(items, items * 4);
    for (size_t s = 0; s < sorted.buffers.size(); s++) {
        size_t bytes = 0;
        CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, unsorted[s], sorted[s], items));
        Buffer<char> temporary(bytes);
        CHECK(cub::DeviceRadixSort::SortKeys(temporary.data, bytes, unsorted[s], sorted[s], items));
        CHECK(cudaDeviceSynchronize());
    }
    auto lengths = outputs<u32>(items, items * 8);
    row("run_length.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceRunLengthEncode::Encode(t, b, sorted[run], out[run], lengths[run], count.data, items);
    });
    row("unique.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceSelect::Unique(t, b, sorted[run], out[run], count.data, items);
    });
    row("reduce_by_key.u32." + size_text(items), items, [&](void* t, size_t& b, int run) {
        return cub::DeviceReduce::ReduceByKey(t, b, sorted[run], out[run], in[run], lengths[run], count.data, cuda::std::plus<>{}, items);
    });
}

static void gathers(u64 items) {
    std::string name = "gather.u64.random." + size_text(items);
    if (!wants(name)) return;
    auto source = inputs<u64>(items, items * 20);
    auto indexes = inputs<u32>(items, items * 20, items);
    auto out = outputs<u64>(items, items * 20);
    row(name, items, [&](void* t, size_t& b, int run) {
        b = 1;
        if (t) gather_kernel<<<(unsigned)((items + 255) / 256), 256>>>(source[run], indexes[run], out[run], items);
        return cudaGetLastError();
    });
}

int main(int argc, char** argv) {
    if (argc > 1) filter = argv[1];
    int version = 0;
    CHECK(cudaRuntimeGetVersion(&version));
    printf("CUB %d.%d of CUDA %d.%d\n", CUB_MAJOR_VERSION, CUB_MINOR_VERSION, version / 1000, version % 1000 / 10);
    for (u64 items : {16ull << 20, 128ull << 20}) {
        scans(items);
        gathers(items);
        sort_keys<u32>("u32", items);
        sort_keys<u64>("u64", items);
        sort_pairs<u32, u32>("u32.u32", items);
        sort_pairs<u64, u32>("u64.u32", items);
        sort_pairs<u64, u64>("u64.u64", items);
        sort_pairs<u32, u32>("u32.u32", items, 6);
        sort_pairs<u32, u32>("u32.u32", items, 8);
    }
    return 0;
}
