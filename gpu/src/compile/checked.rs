//! The host's compiler for the simulator, which asks NVRTC, too, whether devices would take the source: so tests without a
//! GPU know that what is generated while they run compiles for one.

use super::{ARCHITECTURES, Compiler, HostCompiler, Nvrtc, Program};
use crate::error::{GpuError, Result};

/// See above.
pub struct Checked {
    host: HostCompiler,
    devices: Vec<Nvrtc>,
}

impl Checked {
    /// Where `TENON_SIM_NVRTC=1` asks for it, an error if there is no NVRTC; else the compiler as it is.
    pub fn wanted(host: HostCompiler) -> Result<Box<dyn Compiler>> {
        if std::env::var("TENON_SIM_NVRTC").as_deref() != Ok("1") {
            return Ok(Box::new(host));
        }
        let devices = ARCHITECTURES
            .iter()
            .map(|&architecture| Nvrtc::load(architecture, u32::MAX));
        let devices = devices.collect::<Result<_>>()?;
        Ok(Box::new(Checked { host, devices }))
    }
}

impl Compiler for Checked {
    fn toolchain(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(Nvrtc::toolchain).collect();
        format!("{} and {}", self.host.toolchain(), devices.join(" and "))
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        for device in &self.devices {
            device.compile(program).map_err(|error| GpuError::Compile {
                program: program.describe(),
                log: format!("NVRTC: {error}"),
            })?;
        }
        self.host.compile(program)
    }

    fn extension(&self) -> &'static str {
        self.host.extension()
    }
}
