//! Compiling kernel sources for a target, with a cache on disk.
//!
//! A [`Program`] is a kernel source with its specialisation (macro definitions and generated headers). Its key is a
//! BLAKE3 hash over the source, every header, the definitions, the options, the target and the compiler's version.

mod cache;
mod checked;
mod host;
mod nvrtc;

use std::path::PathBuf;

pub use cache::{Cache, default_directory};
pub use checked::Checked;
pub use host::HostCompiler;
pub use nvrtc::{Nvrtc, search_paths};

use crate::error::Result;
use crate::sources;
use crate::tuning;

/// Architectures that every program must compile for: Ampere, Hopper, Blackwell.
pub const ARCHITECTURES: [u32; 3] = [80, 90, 100];

/// A parameter struct's name and its `KernelParams::layout`.
pub type Layout = (&'static str, fn() -> String);

/// A kernel source file of this crate and the parameter structs that it declares.
#[derive(Clone, Copy)]
pub struct Source {
    /// File name, as in error messages.
    pub name: &'static str,
    pub text: &'static str,
    /// `KernelParams::layout` of each parameter struct in the source, by name.
    pub layouts: &'static [Layout],
}

/// Declares a [`Source`]: `source!("fill.cu", FillParams)`.
#[macro_export]
macro_rules! source {
    ($file:literal $(, $params:ty)* $(,)?) => {
        $crate::compile::Source {
            name: $file,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $file)),
            layouts: &[$((<$params as $crate::KernelParams>::NAME, <$params as $crate::KernelParams>::layout)),*],
        }
    };
}

/// A kernel source with its specialisation: what is compiled.
#[derive(Clone)]
pub struct Program {
    pub source: &'static Source,
    /// Macro definitions, sorted by name when compiled.
    pub defines: Vec<(String, String)>,
    /// Generated headers: name as included, and text.
    pub headers: Vec<(String, String)>,
}

impl Program {
    /// The source without any specialisation.
    pub fn new(source: &'static Source) -> Program {
        Program {
            source,
            defines: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Adds a macro definition.
    pub fn define(mut self, name: &str, value: impl ToString) -> Program {
        self.defines.push((name.to_string(), value.to_string()));
        self.defines.sort();
        self
    }

    /// Adds a generated header, for `#include "name"`.
    pub fn header(mut self, name: &str, text: impl Into<String>) -> Program {
        self.headers.push((name.to_string(), text.into()));
        self.headers.sort();
        self
    }

    /// Name with definitions, for messages.
    pub fn describe(&self) -> String {
        let defines: Vec<String> = self.defines.iter().map(|(n, v)| format!("{n}={v}")).collect();
        if defines.is_empty() {
            self.source.name.to_string()
        } else {
            format!("{} [{}]", self.source.name, defines.join(" "))
        }
    }

    /// The source followed by the assertions on its parameter structs.
    pub(crate) fn full_text(&self) -> String {
        let mut text = self.source.text.to_string();
        text.push_str("\n#line 1 \"layout of parameters\"\n");
        for (_, layout) in self.source.layouts {
            text.push_str(&layout());
        }
        text
    }

    /// Every header the source may include: those of this crate, the tuning numbers, the generated ones.
    pub(crate) fn all_headers(&self) -> Vec<(String, String)> {
        let mut headers: Vec<(String, String)> = sources::HEADERS
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        headers.push(("tuning.cuh".to_string(), tuning::header()));
        headers.extend(self.headers.iter().cloned());
        headers
    }

    /// What tells programs apart within the process: sources and embedded headers do not change, so unlike
    /// [`Program::key`] this is cheap enough for every launch.
    pub(crate) fn identity(&self) -> String {
        let mut text = format!("{}@{:p}", self.source.name, self.source.text);
        for (name, value) in self.defines.iter().chain(&self.headers) {
            text.push('\0');
            text.push_str(name);
            text.push('\0');
            text.push_str(value);
        }
        text
    }

    /// Hash over everything that the machine code depends on. `toolchain` names compiler, version, target and options.
    pub(crate) fn key(&self, toolchain: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut put = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        put(toolchain);
        put(self.source.name);
        put(&self.full_text());
        for (name, text) in self.all_headers().iter().chain(&self.defines) {
            put(name);
            put(text);
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Machine code, ready to load.
pub struct Artifact {
    /// Name with definitions, for messages.
    pub name: String,
    pub code: MachineCode,
}

/// Where machine code is.
pub enum MachineCode {
    /// A cubin or PTX image for the driver.
    Image(Vec<u8>),
    /// A shared object for the simulator.
    SharedObject(PathBuf),
}

/// Compiles a program for one target.
pub trait Compiler: Send + Sync {
    /// Compiler, version, target and options: part of the cache's key.
    fn toolchain(&self) -> String;
    /// Compiles; returns the bytes of a cubin, of PTX or of a shared object.
    fn compile(&self, program: &Program) -> Result<Vec<u8>>;
    /// Extension of cached files.
    fn extension(&self) -> &'static str;
}
