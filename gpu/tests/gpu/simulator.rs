//! The builtins of kernels, on the device under test: each result against a plain loop.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::compile::{Program, Source};
use tenon_gpu::memory::{DevicePtr, DevicePtrMut};
use tenon_gpu::{Kernel, KernelParams, LaunchConfig, Stream, kernel_params, testing};

kernel_params! {
    struct CheckParams { input: DevicePtr<u64>, output: DevicePtrMut<u64>, items: u64, extra: u64 }
}

static SOURCE: Source = Source {
    name: "builtins.cu",
    text: include_str!("kernels/builtins.cu"),
    layouts: &[("CheckParams", <CheckParams as KernelParams>::layout)],
};

fn kernel(stream: &Stream, name: &str) -> Kernel<CheckParams> {
    stream
        .device()
        .load(&Program::new(&SOURCE))
        .unwrap()
        .kernel(name)
        .unwrap()
}

/// Runs a kernel over `input` and returns its `outputs` words, zero at first.
fn run(name: &str, config: LaunchConfig, input: &[u64], outputs: u64, extra: u64) -> Vec<u64> {
    let device = testing::device();
    let result = {
        let stream = device.stream().unwrap();
        let input = stream.upload(input).unwrap();
        let mut output = stream.alloc_zeroed::<u64>(outputs).unwrap();
        let params = CheckParams {
            input: input.ptr(),
            output: output.ptr_mut(),
            items: input.len(),
            extra,
        };
        // SAFETY: the output has the words that the kernel writes.
        unsafe { kernel(&stream, name).launch(&stream, &config, &params).unwrap() };
        stream.download(output.view()).unwrap()
    };
    assert_eq!(device.pool().in_use(), 0);
    result
}

fn random(test: &str, items: usize) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(testing::seed(test));
    (0..items).map(|_| rng.random()).collect()
}

#[test]
fn warp_collectives() {
    let input = random("warp_collectives", 3 * 96);
    let output = run("warp_row", LaunchConfig::new(3, 96), &input, input.len() as u64 * 16, 0);
    for (w, warp) in input.chunks(32).enumerate() {
        let x: Vec<u32> = warp.iter().map(|&v| v as u32).collect();
        for lane in 0..32 {
            let row = &output[(w * 32 + lane) * 16..][..16];
            let ballot = |f: &dyn Fn(u32) -> bool| (0..32).filter(|&l| f(x[l])).fold(0u64, |m, l| m | 1 << l);
            let expected = [
                warp[5],
                x[if lane >= 3 { lane - 3 } else { lane }] as u64,
                x[if lane + 7 < 32 { lane + 7 } else { lane }] as u64,
                x[lane ^ 9] as u64,
                ballot(&|v| v & 1 == 1),
                ballot(&|v| v % 5 == x[lane] % 5),
                (x.iter().any(|v| v % 64 == 1) as u64) << 1 | x.iter().all(|v| v % 64 != 1) as u64,
                *x.iter().max().unwrap() as u64,
                x[..=lane].iter().fold(0u32, |a, &b| a.wrapping_add(b)) as u64,
                x[if lane < 16 { 2 } else { 20 }] as u64,
                ((warp[lane].count_ones() << 16 | warp[lane].leading_zeros() << 8)
                    | if x[lane] == 0 { 0 } else { x[lane].trailing_zeros() + 1 }) as u64,
                (x[lane].reverse_bits() as u64) << 32 | ((x[lane] as u64 * 0x9e3779b9) >> 32),
                warp[31] ^ x[31] as u64,
                x[(lane & !7) + 1] as u64,
                (lane as u64) << 8 | (w % 3) as u64,
                ((warp[lane] as u128 * 0x9e37_79b9_7f4a_7c15) >> 64) as u64,
            ];
            assert_eq!(row, expected, "warp {w} lane {lane}");
        }
    }
}

#[test]
fn block_algorithms() {
    for threads in [32u32, 64, 256, 1024] {
        let input: Vec<u64> = random("block_algorithms", 3 * threads as usize)
            .iter()
            .map(|v| v >> 12)
            .collect();
        let output = run(
            "block_scan",
            LaunchConfig::new(3, threads),
            &input,
            input.len() as u64 * 4,
            0,
        );
        for (b, block) in input.chunks(threads as usize).enumerate() {
            let mut before = 0;
            let odd = block.iter().filter(|&&v| v % 2 == 1).count() as u64;
            let expected_tail = [block.iter().sum(), *block.iter().max().unwrap(), odd << 2 | 3];
            for (i, value) in block.iter().enumerate() {
                let row = &output[(b * threads as usize + i) * 4..][..4];
                assert_eq!(row[0], before, "block {b} thread {i} of {threads}");
                assert_eq!(row[1..], expected_tail, "block {b} thread {i} of {threads}");
                before += value;
            }
        }
    }
}

#[test]
fn blocks_that_wait_for_earlier_blocks() {
    let blocks = 1000;
    let input = random("blocks_that_wait", blocks);
    let output = run(
        "chain",
        LaunchConfig::new(blocks as u32, 64),
        &input,
        blocks as u64 * 2,
        0,
    );
    let mut sum = 0u64;
    for (i, value) in input.iter().enumerate() {
        sum = sum.wrapping_add(*value);
        assert_eq!(output[i], sum, "block {i}");
    }
}

#[test]
fn dynamic_shared_memory_and_atomics() {
    let input = random("dynamic_shared", 20_001);
    let bins = 3000u64;
    let output = run(
        "bins",
        LaunchConfig::new(5, 256).shared(bins as u32 * 4),
        &input,
        bins,
        bins,
    );
    let mut expected = vec![0u64; bins as usize];
    input.iter().for_each(|v| expected[(v % bins) as usize] += 1);
    assert_eq!(output, expected);
}
