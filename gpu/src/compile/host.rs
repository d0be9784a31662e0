//! The host's C++ compiler, for the simulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Compiler, Program};
use crate::error::{GpuError, Result};

/// Same floating-point results as the device: no contraction to fused multiply-add. Misaligned accesses trap, as
/// they do there.
const OPTIONS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-stack-protector",
    "-fno-builtin-printf",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
    // A fiber finds itself from its stack pointer, so its stack must not be left: frames stay far below 64 KiB.
    "-Werror=frame-larger-than=24576",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unknown-pragmas",
    "-Wno-unused-variable",
    "-Wno-unused-but-set-variable",
    "-DTENON_SIM=1",
];

/// A C++ compiler of this machine.
pub struct HostCompiler {
    command: PathBuf,
    version: String,
}

impl HostCompiler {
    /// `TENON_CXX`, or the first of `c++`, `g++`, `clang++` that runs.
    pub fn find() -> Result<HostCompiler> {
        let chosen = std::env::var("TENON_CXX").ok();
        let candidates: Vec<&str> = match &chosen {
            Some(command) => vec![command],
            None => vec!["c++", "g++", "clang++"],
        };
        for command in &candidates {
            if let Ok(output) = Command::new(command).arg("--version").output()
                && output.status.success()
            {
                let version = String::from_utf8_lossy(&output.stdout)
                    .lines()
                    .next()
                    .unwrap_or("")
                    .to_string();
                return Ok(HostCompiler {
                    command: command.into(),
                    version,
                });
            }
        }
        Err(GpuError::NoDevice(format!(
            "the simulator needs a C++ compiler; none of {candidates:?} runs"
        )))
    }

    /// First line of the compiler's version.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl Compiler for HostCompiler {
    fn toolchain(&self) -> String {
        format!("host {} {} {}", self.command.display(), self.version, OPTIONS.join(" "))
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        let directory = Scratch::new()?;
        let write = |name: &str, text: &str| {
            let path = directory.0.join(name);
            fs::write(&path, text).map_err(|e| GpuError::io(format!("writing {}", path.display()), e))
        };
        write(program.source.name, &program.full_text())?;
        for (name, text) in program.all_headers() {
            write(&name, &text)?;
        }
        let output = Command::new(&self.command)
            .current_dir(&directory.0)
            .args(OPTIONS)
            .args(program.defines.iter().map(|(name, value)| format!("-D{name}={value}")))
            .args(["-o", "out.so", program.source.name])
            .output()
            .map_err(|e| GpuError::io(format!("running {}", self.command.display()), e))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(GpuError::Compile {
                program: program.describe(),
                log,
            });
        }
        fs::read(directory.0.join("out.so")).map_err(|e| GpuError::io("reading the compiled kernel", e))
    }

    fn extension(&self) -> &'static str {
        "so"
    }
}

/// A directory removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "tenon-sim-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|e| GpuError::io(format!("creating {}", path.display()), e))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}
