//! The CUDA backend against a false driver: every way to have no GPU gives its exact reason, and memory, streams and
//! failures behave. What needs kernels to run is tested by the other modules under `TENON_DEVICE=cuda`.

use std::path::PathBuf;
use std::process::Command;

use tenon_gpu::primitives::fill::fill;
use tenon_gpu::{Device, DeviceConfig, DeviceKind, GpuError};

/// A false driver and NVRTC with these macros, compiled by the host's C++ compiler.
struct FalseDriver(PathBuf);

impl FalseDriver {
    fn new(name: &str, defines: &[&str]) -> FalseDriver {
        let directory = std::env::temp_dir().join(format!("tenon-false-driver-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let source = directory.join("false_driver.cpp");
        std::fs::write(&source, include_str!("false_driver.cpp")).unwrap();
        let output = Command::new(std::env::var("TENON_CXX").unwrap_or_else(|_| "c++".into()))
            .args(["-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o"])
            .arg(directory.join("libfalse.so"))
            .args(defines.iter().map(|d| format!("-D{d}")))
            .arg(&source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        FalseDriver(directory)
    }

    fn library(&self) -> PathBuf {
        self.0.join("libfalse.so")
    }

    fn config(&self) -> DeviceConfig {
        DeviceConfig {
            driver_library: Some(self.library().display().to_string()),
            nvrtc_library: Some(self.library()),
            cache_directory: Some(self.0.join("cache")),
            ..DeviceConfig::default()
        }
    }

    fn open(&self) -> Result<Device, GpuError> {
        Device::open(DeviceKind::Cuda, self.config())
    }
}

impl Drop for FalseDriver {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_reason_for_having_no_gpu() {
    let cases: [(&str, &[&str], &str); 8] = [
        (
            "old",
            &["VERSION=11080"],
            "no GPU: the NVIDIA driver supports CUDA 11.8, and 12.0 is needed: update the driver",
        ),
        (
            "none",
            &["INIT_CODE=100"],
            "no GPU: the NVIDIA driver is installed and sees no GPU",
        ),
        (
            "zero",
            &["DEVICES=0"],
            "no GPU: the NVIDIA driver is installed and sees no GPU",
        ),
        (
            "broken",
            &["INIT_CODE=999"],
            "no GPU: cuInit failed: CUDA_ERROR_UNKNOWN (999): unknown error",
        ),
        (
            "unheard",
            &["INIT_CODE=12345"],
            "no GPU: cuInit failed: unknown error (12345): unknown error",
        ),
        (
            "volta",
            &["CAPABILITY=70"],
            "no GPU: false device has compute capability 7.0, and 8.0 is needed",
        ),
        (
            "symbol",
            &["NO_EVENTS"],
            "is not usable: it lacks cuEventCreate, so it is too old",
        ),
        (
            "nvrtc",
            &["VERSION=12080"],
            "is not usable: version 13.0 makes code for drivers of CUDA 13, and this one supports CUDA 12.8",
        ),
    ];
    for (name, defines, expected) in cases {
        let error = FalseDriver::new(name, defines).open().err().expect(name);
        assert!(matches!(error, GpuError::NoDevice(_)), "{name}: {error:?}");
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

#[test]
fn a_missing_driver_library_and_a_missing_gpu_number() {
    let nowhere = DeviceConfig {
        driver_library: Some("/nowhere/libcuda.so.1".into()),
        ..DeviceConfig::default()
    };
    let error = Device::open(DeviceKind::Cuda, nowhere).err().unwrap().to_string();
    assert!(
        error.starts_with("no GPU: the NVIDIA driver is not installed (/nowhere/libcuda.so.1"),
        "{error}"
    );
    let driver = FalseDriver::new("ordinal", &[]);
    let second = DeviceConfig {
        ordinal: 1,
        ..driver.config()
    };
    let error = Device::open(DeviceKind::Cuda, second).err().unwrap().to_string();
    assert_eq!(
        error,
        "no GPU: GPU 1 was asked for, and the driver sees 1 (counted from 0)"
    );
    let no_nvrtc = DeviceConfig {
        nvrtc_library: Some("/nowhere/libnvrtc.so".into()),
        ..driver.config()
    };
    let error = Device::open(DeviceKind::Cuda, no_nvrtc).err().unwrap().to_string();
    assert!(
        error.starts_with("no GPU: NVRTC /nowhere/libnvrtc.so is not usable: /nowhere/libnvrtc.so"),
        "{error}"
    );
}

#[test]
fn facts_copies_and_slabs() {
    let driver = FalseDriver::new("facts", &[]);
    let device = driver.open().unwrap();
    let info = device.info();
    assert_eq!(
        (info.name.as_str(), info.architecture, info.multiprocessors),
        ("false device", 90, 132)
    );
    assert_eq!(
        (info.l2_bytes, info.shared_bytes_max, info.driver_version),
        (50 << 20, 227 << 10, 13000)
    );
    assert!(info.compiler.starts_with("NVRTC 13.0 (/"), "{}", info.compiler);
    assert_eq!(device.pool().budget_bytes(), (1u64 << 30) / 10 * 9);
    let stream = device.stream().unwrap();
    let host: Vec<u32> = (0..100_000).collect();
    let buffer = stream.upload(&host).unwrap();
    let mut copy = stream.alloc(buffer.len()).unwrap();
    stream.copy(buffer.view(), copy.view_mut()).unwrap();
    drop(buffer);
    assert_eq!(stream.download(copy.view()).unwrap(), host);
    assert!(!stream.is_idle().unwrap());
    assert_eq!(device.pool().driver_allocations(), 1, "both buffers come from one slab");
    drop(copy);
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn the_drivers_memory_runs_out() {
    let driver = FalseDriver::new("memory", &["MEMORY_BYTES=(300ull<<20)"]);
    let config = DeviceConfig {
        budget_bytes: Some(1 << 30),
        ..driver.config()
    };
    let device = Device::open(DeviceKind::Cuda, config).unwrap();
    let stream = device.stream().unwrap();
    let first = stream.alloc::<u8>(200 << 20).unwrap();
    // The next slab would double; the driver has 44 MiB left, so a small one is made.
    let second = stream.alloc::<u8>(60 << 20);
    assert!(
        second.as_ref().is_err_and(|e| e.is_out_of_memory()),
        "{:?}",
        second.err()
    );
    let error = second.err().unwrap().to_string();
    assert!(
        error.contains("62914560 bytes asked for, 209715200 of 1073741824 in use"),
        "{error}"
    );
    assert!(error.contains("the driver has no more"), "{error}");
    let third = stream.alloc::<u8>(40 << 20).unwrap();
    drop((first, third));
    assert_eq!(device.pool().in_use(), 0);
    let whole = stream.alloc::<u8>(290 << 20).unwrap();
    assert_eq!(
        whole.bytes(),
        290 << 20,
        "free slabs went back to the driver to make room"
    );
}

#[test]
fn failing_launches_and_waits_are_errors() {
    let driver = FalseDriver::new("trap", &["TRAP=719"]);
    let device = driver.open().unwrap();
    let stream = device.stream().unwrap();
    let mut buffer = stream.alloc::<u32>(10).unwrap();
    // After this code the context is of no more use, which callers must be able to tell.
    let error = fill(&stream, buffer.view_mut(), 1).unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert_eq!(
        error.to_string(),
        "cuLaunchKernel failed: CUDA_ERROR_UNKNOWN (999): unknown error"
    );
    let error = stream.synchronize().unwrap_err().to_string();
    assert_eq!(
        error,
        "cuStreamSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"
    );
    drop(buffer);
    assert_eq!(device.pool().in_use(), 0);
}
