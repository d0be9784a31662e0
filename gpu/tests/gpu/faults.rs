//! Kernels that fail give ordinary errors, and the device stays usable. On the simulator, but for the last: on a GPU a
//! fault ends the device's context.

use std::path::PathBuf;
use std::time::Duration;

use tenon_gpu::compile::{Program, Source};
use tenon_gpu::memory::DevicePtrMut;
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::scan::exclusive_scan;
use tenon_gpu::{
    Device, DeviceConfig, DeviceKind, GpuError, KernelParams, LaunchConfig, SimConfig, kernel_params, testing,
};

kernel_params! {
    struct FaultParams { data: DevicePtrMut<u32>, items: u64, which: u64 }
}

static SOURCE: Source = Source {
    name: "faults.cu",
    text: include_str!("kernels/faults.cu"),
    layouts: &[("FaultParams", <FaultParams as KernelParams>::layout)],
};

const ITEMS: u64 = 101;

fn run(device: &Device, name: &str, which: u64, threads: u32) -> Result<Vec<u32>, GpuError> {
    let stream = device.stream()?;
    let mut data = stream.alloc::<u32>(ITEMS)?;
    let kernel = device.load(&Program::new(&SOURCE))?.kernel::<FaultParams>(name)?;
    let params = FaultParams {
        data: data.ptr_mut(),
        items: data.len(),
        which,
    };
    // SAFETY: on the simulator a kernel's fault is an error.
    unsafe { kernel.launch(&stream, &LaunchConfig::new(2, threads), &params)? };
    stream.download(data.view())
}

#[test]
fn faults_are_errors_and_the_device_stays_usable() {
    let device = Device::sim(1 << 30).unwrap();
    let cases = [
        (1, "write 0 bytes past the end of 404 bytes"),
        (2, "illegal address"),
        (3, "trap: __trap()"),
        (4, "trap at faults.cu:22: at != 7"),
        (5, "divergent barrier: thread"),
        (6, "deadlock in block (0, 0, 0): "),
        (7, "a null pointer"),
        (8, "misaligned access"),
        (9, "write outside of static shared memory"),
        (10, "division by zero"),
    ];
    for (which, expected) in cases {
        match run(&device, "fault", which, 64) {
            Err(GpuError::Kernel { kernel, message }) => {
                assert_eq!(kernel, "fault");
                assert!(message.contains(expected), "case {which}: {message}");
            }
            other => panic!("case {which}: {other:?}"),
        }
        assert_eq!(
            run(&device, "fault", 0, 64).unwrap(),
            (0..ITEMS as u32).collect::<Vec<_>>(),
            "after case {which}"
        );
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn divergence_overruns_and_deep_stacks_are_errors() {
    let device = Device::sim(1 << 30).unwrap();
    let launch = |name: &str, which: u64, config: LaunchConfig| {
        let stream = device.stream()?;
        let mut data = stream.alloc::<u32>(ITEMS)?;
        let kernel = device.load(&Program::new(&SOURCE))?.kernel::<FaultParams>(name)?;
        let params = FaultParams {
            data: data.ptr_mut(),
            items: ITEMS,
            which,
        };
        // SAFETY: on the simulator a kernel's fault is an error.
        unsafe { kernel.launch(&stream, &config, &params)? };
        Ok::<u32, GpuError>(stream.download(data.slice(..1)?)?[0])
    };
    let message = |name: &str, which: u64, config: LaunchConfig| launch(name, which, config).unwrap_err().to_string();
    let one_warp = LaunchConfig::new(1, 32);
    let text = message("divergent_collective", 0, one_warp);
    assert!(
        text.contains("divergent warp collective: lane 16 is in Ballot"),
        "{text}"
    );
    let text = message("foreign_mask", 0, one_warp);
    assert!(
        text.contains("lane 1 calls a warp collective with mask 0x1, not its own"),
        "{text}"
    );
    assert_eq!(launch("dynamic_shared", 100, one_warp.shared(400)).unwrap(), 99);
    let text = message("dynamic_shared", 1025, one_warp.shared(4096));
    assert!(text.contains("illegal address"), "{text}");
    let text = message("dynamic_shared", 1, one_warp.shared(1 << 30));
    assert!(text.contains("1073741824 bytes of shared memory exceed"), "{text}");
    let deep = Program::new(&SOURCE).define("DEEP", 1);
    match device.load(&deep).map(drop) {
        Err(GpuError::Compile { log, .. }) => assert!(log.contains("frame size"), "{log}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        launch("dynamic_shared", 7, one_warp.shared(400)).unwrap(),
        6,
        "the device stays usable"
    );
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn several_os_threads_and_random_orders_give_the_same() {
    for (threads, order_seed) in [(1, 0), (3, 0), (1, 1), (4, 12345)] {
        let config = DeviceConfig {
            budget_bytes: Some(1 << 30),
            sim: SimConfig {
                threads: Some(threads),
                order_seed: Some(order_seed),
                window: Some(2),
                ..SimConfig::default()
            },
            ..DeviceConfig::default()
        };
        let device = Device::open(DeviceKind::Sim, config).unwrap();
        {
            let stream = device.stream().unwrap();
            let host: Vec<u32> = (0..100_003u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let input = stream.upload(&host).unwrap();
            let mut sums = stream.alloc::<u64>(input.len()).unwrap();
            exclusive_scan(&stream, input.view(), sums.view_mut(), Reduction::Sum).unwrap();
            let mut expected = 0u64;
            for (sum, x) in stream.download(sums.view()).unwrap().into_iter().zip(&host) {
                assert_eq!(sum, expected, "{threads} threads, order {order_seed}");
                expected += *x as u64;
            }
        }
        assert_eq!(device.pool().in_use(), 0);
        assert!(matches!(run(&device, "fault", 1, 64), Err(GpuError::Kernel { .. })));
    }
}

#[test]
fn damaged_and_unwritable_kernel_caches() {
    let directory = std::env::temp_dir().join(format!("tenon-cache-test-{}", std::process::id()));
    let config = || DeviceConfig {
        budget_bytes: Some(1 << 30),
        cache_directory: Some(directory.clone()),
        ..DeviceConfig::default()
    };
    let compiled = |device: &Device| {
        assert_eq!(
            run(device, "fault", 0, 64).unwrap(),
            (0..ITEMS as u32).collect::<Vec<_>>()
        );
        device.compiled()
    };
    let open = || Device::open(DeviceKind::Sim, config()).unwrap();
    assert_eq!(compiled(&open()), 1);
    assert_eq!(compiled(&open()), 0, "the cache serves the second process");
    let files = || -> Vec<PathBuf> {
        std::fs::read_dir(&directory)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect()
    };
    assert_eq!(files().len(), 1, "no temporary file stays");
    let whole = std::fs::read(&files()[0]).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() - 1], &whole[..10], &[], &flipped[..]] {
        // A new file: a process that loaded the old one keeps it.
        let cached = files().remove(0);
        std::fs::remove_file(&cached).unwrap();
        std::fs::write(&cached, damaged).unwrap();
        assert_eq!(
            compiled(&open()),
            1,
            "a damaged file of {} bytes is rebuilt",
            damaged.len()
        );
        assert_eq!(std::fs::read(&files()[0]).unwrap().len(), whole.len());
    }
    std::fs::remove_dir_all(&directory).unwrap();
    // A file in the directory's place: a cache of this process only takes over.
    std::fs::write(&directory, b"in the way").unwrap();
    let device = open();
    assert_eq!(compiled(&device), 1);
    std::fs::remove_file(&directory).unwrap();
}

#[test]
fn reading_past_the_end_names_the_buffer() {
    let device = Device::sim(1 << 30).unwrap();
    let stream = device.stream().unwrap();
    // A whole page, so that the guard page begins at the very end.
    let mut data = stream.alloc::<u32>(1024).unwrap();
    let kernel = device
        .load(&Program::new(&SOURCE))
        .unwrap()
        .kernel::<FaultParams>("fault")
        .unwrap();
    let params = FaultParams {
        data: data.ptr_mut(),
        items: 1024,
        which: 1,
    };
    // SAFETY: on the simulator a kernel's fault is an error.
    let error = unsafe { kernel.launch(&stream, &LaunchConfig::new(1, 32), &params) }
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("block (0, 0, 0) thread (0, 0, 0): illegal address"),
        "{error}"
    );
    assert!(
        error.contains("0 bytes past the end of a buffer of 4096 bytes"),
        "{error}"
    );
}

#[test]
fn a_kernel_that_waits_forever_is_an_error() {
    let config = DeviceConfig {
        budget_bytes: Some(1 << 30),
        sim: SimConfig {
            timeout: Some(Duration::from_secs(1)),
            ..SimConfig::default()
        },
        ..DeviceConfig::default()
    };
    let device = Device::open(DeviceKind::Sim, config).unwrap();
    let error = run(&device, "forever", 0, 32).unwrap_err().to_string();
    assert!(error.contains("no block finished in 1s"), "{error}");
}

#[test]
fn uninitialised_memory_shows() {
    let device = Device::sim(1 << 30).unwrap();
    let stream = device.stream().unwrap();
    let fresh = stream.alloc::<u32>(1000).unwrap();
    assert!(stream.download(fresh.view()).unwrap().iter().all(|&v| v == 0xcdcd_cdcd));
}

#[test]
fn wrong_launches_are_errors() {
    let device = Device::sim(1 << 30).unwrap();
    let kernel_error = |threads| run(&device, "fault", 0, threads).unwrap_err().to_string();
    assert!(kernel_error(0).contains("0 threads a block"));
    assert!(kernel_error(2048).contains("2048 threads a block, 1 to 1024 allowed"));
    let missing = run(&device, "nothing", 0, 32).unwrap_err().to_string();
    assert!(missing.contains("there is no kernel nothing"), "{missing}");
}

/// Set in the process that provokes a trap: it costs that process every CUDA context.
const TRAP_PROCESS: &str = "TENON_TEST_TRAP_PROCESS";

#[test]
fn a_trap_on_a_gpu_is_an_error_of_every_later_call() {
    let name = "faults::a_trap_on_a_gpu_is_an_error_of_every_later_call";
    if testing::device_kind() != DeviceKind::Cuda {
        println!("NOT RUN: a trap that ends a CUDA context needs a GPU (TENON_DEVICE=cuda)");
        return;
    }
    if std::env::var_os(TRAP_PROCESS).is_none() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(TRAP_PROCESS, "1")
            .status()
            .unwrap();
        assert!(child.success(), "the process with the trap ended with {child}");
        return;
    }
    let device = testing::device_with_budget(1 << 28);
    let right: Vec<u32> = (0..ITEMS as u32).collect();
    assert_eq!(run(&device, "fault", 0, 64).unwrap(), right);
    let error = run(&device, "fault", 3, 64).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
    assert!(run(&device, "fault", 0, 64).is_err(), "the context is gone");
    drop(device);
    // Whether the driver gives a new context is its choice: an error must be one that sends work to the CPU.
    match Device::open(DeviceKind::Cuda, DeviceConfig::default()) {
        Ok(device) => println!(
            "opened again: {:?}",
            run(&device, "fault", 0, 64).map(|data| data == right)
        ),
        Err(error) => println!("opened again: {error}"),
    }
}
