//! Compiles every registered program by NVRTC for every supported architecture, with no GPU needed.

use std::path::Path;

use tenon_gpu::compile::{Compiler, Nvrtc, Program, Source};
use tenon_gpu::{registry, testing};

/// The kernels that check the builtins: what they use must exist on both sides.
static BUILTINS: Source = Source {
    name: "builtins.cu",
    text: include_str!("kernels/builtins.cu"),
    layouts: &[],
};

#[test]
fn every_program_compiles_for_every_architecture() {
    let Some(library) = testing::nvrtc_library() else {
        println!("NOT RUN: no NVRTC here, so no kernel was compiled for a GPU. scripts/install-nvrtc.sh installs it.");
        eprintln!("NOT RUN: no NVRTC here, so no kernel was compiled for a GPU. scripts/install-nvrtc.sh installs it.");
        return;
    };
    let mut programs = registry::programs();
    programs.push(Program::new(&BUILTINS));
    for architecture in registry::ARCHITECTURES {
        let nvrtc = Nvrtc::load_from(&library, architecture, 13000).unwrap();
        for program in &programs {
            let code = nvrtc
                .compile(program)
                .unwrap_or_else(|e| panic!("sm_{architecture}: {e}"));
            assert_eq!(code[..4], *b"\x7fELF", "sm_{architecture}: {}", program.describe());
        }
        println!(
            "sm_{architecture}: {} programs compiled by NVRTC {:?}",
            programs.len(),
            nvrtc.version
        );
    }
}

#[test]
fn a_missing_library_is_an_error() {
    let error = Nvrtc::load_from(Path::new("/nowhere/libnvrtc.so"), 90, 13000)
        .err()
        .unwrap();
    assert!(error.contains("/nowhere/libnvrtc.so"), "{error}");
}
