//! NVRTC, loaded at run time from wherever it is.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use super::{Compiler, Program};
use crate::error::{GpuError, Result};
use crate::info::version_text;

/// Same floating-point results as the CPU path: no contraction to fused multiply-add.
const OPTIONS: &[&str] = &[
    "--std=c++17",
    "--device-int128",
    "--fmad=false",
    "--extra-device-vectorization",
    "--generate-line-info",
];

type Handle = *mut c_void;

/// The functions of NVRTC in use.
struct Api {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ptx_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    architectures: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// NVRTC, targeting one architecture.
pub struct Nvrtc {
    api: &'static Api,
    /// Where it was loaded from.
    pub path: String,
    /// Major and minor version.
    pub version: (i32, i32),
    /// Compute capability, as 90 for 9.0.
    architecture: u32,
    /// Whether NVRTC makes machine code for it; else it makes PTX that the driver compiles.
    native: bool,
    ptx_architecture: u32,
}

const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Files to try, in order: `TENON_NVRTC_PATH` (a file or a directory), the loader's own search, CUDA toolkits,
/// the directories where Python packages put NVRTC.
pub fn search_paths() -> Vec<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut paths = Vec::new();
    if let Some(given) = from("TENON_NVRTC_PATH") {
        if !given.is_dir() {
            paths.push(given.clone());
        }
        paths.extend(NAMES.map(|n| given.join(n)));
    }
    paths.extend(NAMES.map(PathBuf::from));
    let mut directories: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(from)
        .map(|d| d.join("lib64"))
        .collect();
    directories.extend(
        [
            "/usr/local/cuda/lib64",
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib64",
            "/opt/cuda/lib64",
        ]
        .map(PathBuf::from),
    );
    for packages in python_package_directories() {
        directories.extend(["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|d| packages.join(d)));
    }
    for directory in directories {
        paths.extend(
            NAMES
                .map(|n| directory.join(n))
                .into_iter()
                .filter(|path| path.exists()),
        );
    }
    paths
}

/// `site-packages` and `dist-packages` of the Pythons in a virtual environment, of the user and of the system.
fn python_package_directories() -> Vec<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let roots = [
        from("VIRTUAL_ENV"),
        from("HOME").map(|h| h.join(".local")),
        Some("/usr/local".into()),
        Some("/usr".into()),
    ];
    let mut directories = Vec::new();
    for library in roots.into_iter().flatten().map(|root| root.join("lib")) {
        for entry in std::fs::read_dir(library).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"python3") {
                directories.extend(["site-packages", "dist-packages"].map(|d| entry.path().join(d)));
            }
        }
    }
    directories
}

/// NVRTC opens `libnvrtc-builtins` by bare name; loading it from NVRTC's own directory first makes that name known.
fn preload_builtins(nvrtc: &Path) {
    // A bare name is the loader's to find, and so are the builtins then.
    let Some(directory) = nvrtc
        .parent()
        .filter(|d| !d.as_os_str().is_empty())
        .and_then(|d| d.canonicalize().ok())
    else {
        return;
    };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(b"libnvrtc-builtins.so")
            && let Ok(path) = CString::new(entry.path().as_os_str().as_encoded_bytes())
        {
            // SAFETY: loads NVRTC's own data library. A failure shows when NVRTC looks for it.
            unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        }
    }
}

impl Nvrtc {
    /// Loads NVRTC for this compute capability (90 for 9.0) and driver (13000 for CUDA 13.0) from the first of the
    /// search paths that has it.
    pub fn load(architecture: u32, driver_version: u32) -> Result<Nvrtc> {
        let mut reasons = Vec::new();
        for path in search_paths() {
            match Nvrtc::load_from(&path, architecture, driver_version) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(reason) => reasons.push(format!("{}: {reason}", path.display())),
            }
        }
        reasons.dedup();
        Err(GpuError::NoDevice(format!(
            "NVRTC (libnvrtc) is not usable; set TENON_NVRTC_PATH. Tried: {}",
            reasons.join("; ")
        )))
    }

    /// Loads NVRTC from this file; the error is the reason in words.
    pub fn load_from(path: &Path, architecture: u32, driver_version: u32) -> std::result::Result<Nvrtc, String> {
        let c_path = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        preload_builtins(path);
        // SAFETY: loads a shared library; its initialisers are NVRTC's.
        let library = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: dlerror gives a string after a failed dlopen.
            return Err(unsafe { CStr::from_ptr(libc::dlerror()) }
                .to_string_lossy()
                .into_owned());
        }
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: looks a symbol up in a loaded library.
                let address = unsafe { libc::dlsym(library, $name.as_ptr()) };
                if address.is_null() {
                    return Err(format!("{} is missing", $name.to_string_lossy()));
                }
                // SAFETY: NVRTC's functions have had these signatures since version 11.
                unsafe { std::mem::transmute_copy(&address) }
            }};
        }
        // The library stays loaded for the life of the process, so its functions may too.
        let api: &'static Api = Box::leak(Box::new(Api {
            version: symbol!(c"nvrtcVersion"),
            create: symbol!(c"nvrtcCreateProgram"),
            destroy: symbol!(c"nvrtcDestroyProgram"),
            compile: symbol!(c"nvrtcCompileProgram"),
            log_size: symbol!(c"nvrtcGetProgramLogSize"),
            log: symbol!(c"nvrtcGetProgramLog"),
            cubin_size: symbol!(c"nvrtcGetCUBINSize"),
            cubin: symbol!(c"nvrtcGetCUBIN"),
            ptx_size: symbol!(c"nvrtcGetPTXSize"),
            ptx: symbol!(c"nvrtcGetPTX"),
            architecture_count: symbol!(c"nvrtcGetNumSupportedArchs"),
            architectures: symbol!(c"nvrtcGetSupportedArchs"),
            error_string: symbol!(c"nvrtcGetErrorString"),
        }));
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the out-pointers are valid; the array has the length that NVRTC asks for.
        let supported = unsafe {
            (api.version)(&mut major, &mut minor);
            (api.architecture_count)(&mut count);
            let mut supported = vec![0; count.max(0) as usize];
            (api.architectures)(supported.as_mut_ptr());
            supported
        };
        if major as u32 > driver_version / 1000 {
            return Err(format!(
                "version {major}.{minor} makes code for drivers of CUDA {major}, and this one supports CUDA {}",
                version_text(driver_version)
            ));
        }
        let best = supported.iter().map(|&a| a as u32).filter(|&a| a <= architecture).max();
        let Some(best) = best else {
            return Err(format!(
                "version {major}.{minor} knows architectures {supported:?}, none up to {architecture}"
            ));
        };
        Ok(Nvrtc {
            api,
            path: path.display().to_string(),
            version: (major, minor),
            architecture,
            native: best == architecture,
            ptx_architecture: best,
        })
    }

    /// Version and place, for people.
    pub fn describe(&self) -> String {
        format!("NVRTC {}.{} ({})", self.version.0, self.version.1, self.path)
    }

    fn target_option(&self) -> String {
        if self.native {
            format!("--gpu-architecture=sm_{}", self.architecture)
        } else {
            format!("--gpu-architecture=compute_{}", self.ptx_architecture)
        }
    }

    fn error(&self, code: c_int) -> String {
        // SAFETY: NVRTC returns a static string for every code.
        unsafe { CStr::from_ptr((self.api.error_string)(code)) }
            .to_string_lossy()
            .into_owned()
    }
}

impl Compiler for Nvrtc {
    fn toolchain(&self) -> String {
        format!(
            "nvrtc {}.{} {} {}",
            self.version.0,
            self.version.1,
            self.target_option(),
            OPTIONS.join(" ")
        )
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        let c = |text: &str| CString::new(text).map_err(|_| GpuError::Invalid("a NUL byte in a kernel source".into()));
        let text = program.full_text();
        let (source, name) = (c(&text)?, c(program.source.name)?);
        let headers = program.all_headers();
        let names = headers.iter().map(|h| c(&h.0)).collect::<Result<Vec<_>>>()?;
        let texts = headers.iter().map(|h| c(&h.1)).collect::<Result<Vec<_>>>()?;
        let mut options = vec![c(&self.target_option())?];
        for option in OPTIONS {
            options.push(c(option)?);
        }
        for (name, value) in &program.defines {
            options.push(c(&format!("-D{name}={value}"))?);
        }
        let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, options) = (pointers(&names), pointers(&texts), pointers(&options));
        let failed = |log: String| GpuError::Compile {
            program: program.describe(),
            log,
        };
        // SAFETY: all strings outlive the calls; buffers have the sizes that NVRTC reports; the program is destroyed
        // once.
        unsafe {
            let mut handle: Handle = null_mut();
            let count = headers.len() as c_int;
            let code = (self.api.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            );
            if code != 0 {
                return Err(failed(self.error(code)));
            }
            let code = (self.api.compile)(handle, options.len() as c_int, options.as_ptr());
            let result = if code != 0 {
                let log = self.fetch(handle, self.api.log_size, self.api.log).unwrap_or_default();
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
                Err(failed(format!("{}\n{log}", self.error(code))))
            } else if self.native {
                self.fetch(handle, self.api.cubin_size, self.api.cubin).map_err(failed)
            } else {
                self.fetch(handle, self.api.ptx_size, self.api.ptx).map_err(failed)
            };
            (self.api.destroy)(&mut handle);
            result
        }
    }

    fn extension(&self) -> &'static str {
        if self.native { "cubin" } else { "ptx" }
    }
}

impl Nvrtc {
    /// # Safety
    /// `handle` is a live program; the two functions are a size query and its fetch.
    unsafe fn fetch(
        &self,
        handle: Handle,
        size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> std::result::Result<Vec<u8>, String> {
        let mut bytes = 0usize;
        // SAFETY: the caller's promise; the buffer has the size just asked for.
        unsafe {
            let code = size(handle, &mut bytes);
            if code != 0 {
                return Err(self.error(code));
            }
            let mut buffer = vec![0u8; bytes];
            let code = get(handle, buffer.as_mut_ptr().cast());
            if code != 0 { Err(self.error(code)) } else { Ok(buffer) }
        }
    }
}
