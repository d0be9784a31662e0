//! Kernels that fail give ordinary errors, and the device stays usable. On the simulator only: on a GPU a fault
//! ends the CUDA context, which `compute-sanitizer` covers.

use std::time::Duration;

use tenon_gpu::compile::{Program, Source};
use tenon_gpu::memory::DevicePtrMut;
use tenon_gpu::{Device, DeviceConfig, DeviceKind, GpuError, KernelParams, LaunchConfig, SimConfig, kernel_params};

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
