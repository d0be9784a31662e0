//! The kernels' parameters and specialisations.

use super::side::Widths;
use crate::compile::{Program, Source};
use crate::join::{Residual, ResidualParams};
use crate::memory::{DevicePtr, DevicePtrMut};
use crate::{kernel_params, source};

/// `Partitioning` of the kernels: the first pass.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Partitioning {
    pub key_min: u64,
    pub count: u32,
    pub shift: u32,
    pub ranges: u32,
    pub unused: u32,
}

/// `Table` of the kernels; addresses are 0 where the kind of table has no such part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    pub slots: u64,
    pub array: u64,
    pub size: u64,
    pub keys: u64,
    pub values: u64,
    pub heads: u64,
    pub links: u64,
    pub groups: u64,
    pub sums: u64,
    pub head_count: u64,
    pub partitions: Partitioning,
    /// Device address of a word that says whether two rows have equal keys; 0: they may.
    pub duplicates: u64,
    /// 256ths of partitions.
    pub cached: u32,
    pub unused: u32,
}

kernel_params! {
    /// A chunk of build rows.
    pub(super) struct BuildParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u8>,
        items: u64,
        first_row: u64,
        spilled: DevicePtrMut<u32>,
        counts: DevicePtrMut<u32>,
        mixed: DevicePtrMut<u8>,
        duplicates: DevicePtrMut<u32>,
        table: Table,
    }
}
kernel_params! {
    /// A chunk of build rows on its way into a chained table.
    pub(super) struct StoreParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u8>,
        items: u64,
        first_row: u64,
        keys_out: DevicePtrMut<u8>,
        values_out: DevicePtrMut<u8>,
    }
}
kernel_params! {
    /// Rows of a chained table.
    pub(super) struct LinkParams { from: u64, to: u64, table: Table }
}
kernel_params! {
    /// A chunk of probe rows.
    pub(super) struct ProbeParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u8>,
        from: u64,
        to: u64,
        first_row: u64,
        spilled: DevicePtrMut<u32>,
        counts: DevicePtrMut<u32>,
        mixed: DevicePtr<u8>,
        count: DevicePtrMut<u64>,
        sum: DevicePtrMut<u64>,
        build_out: DevicePtrMut<u8>,
        probe_out: DevicePtrMut<u8>,
        capacity: u64,
        build_flags: DevicePtrMut<u32>,
        probe_flags: DevicePtrMut<u32>,
        window_from: u64,
        window_to: u64,
        table: Table,
        residual: ResidualParams,
    }
}
kernel_params! {
    /// First places of runs, from counts.
    pub(super) struct SpillPlanParams {
        counts: DevicePtrMut<u32>,
        offsets: DevicePtrMut<u32>,
        offsets_on_host: DevicePtrMut<u32>,
        cursors: DevicePtrMut<u32>,
        partitions: u32,
        unused: u32,
    }
}
kernel_params! {
    /// Spilled rows of a chunk into runs.
    pub(super) struct SpillScatterParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u8>,
        items: u64,
        first_row: u64,
        spilled: DevicePtr<u32>,
        offsets: DevicePtr<u32>,
        cursors: DevicePtrMut<u32>,
        keys_out: DevicePtrMut<u8>,
        values_out: DevicePtrMut<u8>,
        partitions: Partitioning,
    }
}

kernel_params! {
    /// Pieces of runs in host memory, of four words each.
    pub(super) struct GatherParams {
        pieces: DevicePtr<u64>,
        count: u64,
        keys: DevicePtrMut<u8>,
        values: DevicePtrMut<u8>,
    }
}

static JOIN: Source = source!("triton_join.cu", BuildParams, StoreParams, LinkParams, ProbeParams);
static GATHER: Source = source!("triton_gather.cu", GatherParams);
static SPILL: Source = source!("triton_spill.cu", SpillPlanParams, SpillScatterParams);

/// How build rows stand in device memory. The numbers are those of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Key and value in slots, linear probing: the cached rows.
    Linear = 0,
    /// An array of values by key: the cached rows, where keys are dense.
    Perfect = 1,
    /// A list of rows a key: pairs of spilled partitions, and cached rows with many equal keys.
    Chained = 2,
}

/// What a probe does. The numbers are those of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeMode {
    Mark = 2,
    Pairs = 3,
    Aggregate = 4,
}

/// Types of a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    pub build: Widths,
    pub probe: Widths,
    pub equal_hashes: bool,
}

impl Types {
    /// Bytes of the words of a linear or perfect table.
    pub fn word(&self) -> u64 {
        self.build.key.max(self.build.value)
    }

    /// Bytes of a value of a pair that is written.
    pub fn out(&self) -> u64 {
        self.build.value.max(self.probe.value)
    }
}

pub(super) fn join_program(types: Types, table: TableKind, mode: ProbeMode, residual: &Residual) -> Program {
    let name = |width| if width == 4 { "u32" } else { "u64" };
    let grouped = table == TableKind::Chained && mode == ProbeMode::Aggregate && residual.is_none();
    let program = Program::new(&JOIN)
        .define("KEY", types.build.key_name())
        .define("BUILD_VALUE", types.build.value_name())
        .define("PROBE_VALUE", types.probe.value_name())
        .define("WORD", name(types.word()))
        .define("OUT", name(types.out()))
        .define("TABLE", table as u8)
        .define("GROUPED", u8::from(grouped))
        .define("MODE", mode as u8)
        .define("HASH_EQUAL", u8::from(types.equal_hashes));
    residual.into_program(program)
}

pub(super) fn spill_program(widths: Widths, equal_hashes: bool) -> Program {
    Program::new(&SPILL)
        .define("KEY", widths.key_name())
        .define("VALUE", widths.value_name())
        .define("HASH_EQUAL", u8::from(equal_hashes))
}

pub(super) fn gather_program(widths: Widths) -> Program {
    Program::new(&GATHER)
        .define("KEY", widths.key_name())
        .define("VALUE", widths.value_name())
}

/// Specialisations with this condition: the values are row numbers.
pub(in crate::join) fn with_condition(residual: &Residual) -> Vec<Program> {
    let mut programs = Vec::new();
    for key in [4, 8] {
        let side = Widths { key, value: 4 };
        let types = Types {
            build: side,
            probe: side,
            equal_hashes: false,
        };
        for table in [TableKind::Linear, TableKind::Perfect, TableKind::Chained] {
            programs.extend(
                [ProbeMode::Mark, ProbeMode::Pairs, ProbeMode::Aggregate]
                    .map(|mode| join_program(types, table, mode, residual)),
            );
        }
    }
    programs
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    let widths = |key, value| Widths { key, value };
    let mut programs = Vec::new();
    for (build, probe) in [
        (widths(4, 4), widths(4, 4)),
        (widths(8, 4), widths(8, 4)),
        (widths(8, 8), widths(8, 8)),
    ] {
        let types = Types {
            build,
            probe,
            equal_hashes: false,
        };
        for table in [TableKind::Linear, TableKind::Perfect, TableKind::Chained] {
            for mode in [ProbeMode::Mark, ProbeMode::Pairs, ProbeMode::Aggregate] {
                programs.push(join_program(types, table, mode, &Residual::none()));
            }
        }
        programs.push(spill_program(build, false));
        programs.push(gather_program(build));
    }
    programs
}
