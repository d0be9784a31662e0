//! The shared-table hash join as a [`Matcher`]: probe rows look into one [`HashTable`] in device memory.

use std::ops::Range;
use std::sync::Arc;

use super::table::{HashTable, TableKind, TableView};
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::join::{Flags, Matcher, PairsMut, Residual, ResidualParams, Side};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// What a mode reads and writes; null pointers where it does not.
    struct ProbeParams {
        keys: DevicePtr<u8>,
        rows: DevicePtr<u32>,
        from: u64,
        to: u64,
        table: TableView,
        group_offsets: DevicePtr<u32>,
        group_rows: DevicePtr<u32>,
        group_marks: DevicePtrMut<u8>,
        counts: DevicePtrMut<u32>,
        offsets: DevicePtr<u64>,
        window_from: u64,
        window_to: u64,
        build_out: DevicePtrMut<u32>,
        probe_out: DevicePtrMut<u32>,
        capacity_out: u64,
        count_out: DevicePtrMut<u64>,
        build_flags: DevicePtrMut<u8>,
        probe_flags: DevicePtrMut<u8>,
        residual: ResidualParams,
    }
}

static SOURCE: Source = source!("join_hash_probe.cu", TableView, ResidualParams, ProbeParams);

const THREADS: u32 = 256;
/// Probe rows of a thread, their first slots loaded at once.
const ITEMS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableJoinMode {
    Count = 0,
    Write = 1,
    Mark = 2,
    WriteAtOnce = 3,
    WriteGroups = 4,
}

fn program(kind: TableKind, residual: &Residual, mode: TableJoinMode) -> Program {
    residual
        .into_program(kind.define(Program::new(&SOURCE)))
        .define("MODE", mode as u32)
        .define("THREADS", THREADS)
        .define("ITEMS", ITEMS)
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    let condition = Residual::to_compile();
    let mut programs = with_condition(&Residual::none());
    programs.extend(with_condition(&condition));
    programs
}

/// Specialisations with this condition.
pub(super) fn with_condition(residual: &Residual) -> Vec<Program> {
    use TableJoinMode::*;
    let mut programs = Vec::new();
    for kind in TableKind::all() {
        for mode in [Count, Write, Mark, WriteAtOnce, WriteGroups] {
            let occurs = match mode {
                WriteAtOnce => kind.unique,
                WriteGroups => !kind.unique && residual.is_none(),
                Write => kind.unique || !residual.is_none(),
                Count | Mark => true,
            };
            // Dense tables differ in the look-up alone.
            if occurs && (!kind.dense || mode == Count) {
                programs.push(program(kind, residual, mode));
            }
        }
    }
    programs
}

/// Probe rows over a table; positions are their keys in order.
pub struct TableJoin<'a> {
    table: Arc<HashTable>,
    probe: Side<'a>,
    residual: Residual,
}

impl<'a> TableJoin<'a> {
    pub fn new(table: Arc<HashTable>, probe: Side<'a>, residual: Residual) -> Result<TableJoin<'a>> {
        if probe.keys.c_name() != table.kind.key {
            return Err(GpuError::Invalid("join keys of different widths".into()));
        }
        Ok(TableJoin { table, probe, residual })
    }

    /// Parameters without any output.
    fn params(&self, positions: &Range<u64>) -> Result<ProbeParams> {
        if positions.end > self.probe.keys.len() || positions.start > positions.end {
            return Err(GpuError::OutOfRange {
                start: positions.start,
                end: positions.end,
                len: self.probe.keys.len(),
            });
        }
        let groups = self.table.groups.as_ref();
        Ok(ProbeParams {
            keys: DevicePtr::new(self.probe.keys.address()),
            rows: self.probe.rows.map_or(DevicePtr::null(), |rows| rows.ptr()),
            from: positions.start,
            to: positions.end,
            table: self.table.view(),
            group_offsets: groups.map_or(DevicePtr::null(), |groups| groups.offsets.ptr()),
            group_rows: groups.map_or(DevicePtr::null(), |groups| groups.rows.ptr()),
            group_marks: DevicePtrMut::null(),
            counts: DevicePtrMut::null(),
            offsets: DevicePtr::null(),
            window_from: 0,
            window_to: 0,
            build_out: DevicePtrMut::null(),
            probe_out: DevicePtrMut::null(),
            capacity_out: 0,
            count_out: DevicePtrMut::null(),
            build_flags: DevicePtrMut::null(),
            probe_flags: DevicePtrMut::null(),
            residual: self.residual.params()?,
        })
    }

    /// Launches a block for each tile of the positions, or of the window.
    ///
    /// # Safety
    /// What `params` points to fits the mode.
    unsafe fn launch(&self, stream: &Stream, mode: TableJoinMode, items: u64, params: &ProbeParams) -> Result<()> {
        let module = stream.device().load(&program(self.table.kind, &self.residual, mode))?;
        let name = if mode == TableJoinMode::WriteGroups {
            "write_groups"
        } else {
            "probe"
        };
        let config = LaunchConfig::cover(items, (THREADS * ITEMS) as u64, THREADS)?;
        // SAFETY: the caller's promise.
        unsafe { module.kernel::<ProbeParams>(name)?.launch(stream, &config, params) }
    }

    /// Counts or marks.
    fn find(
        &self,
        stream: &Stream,
        mode: TableJoinMode,
        positions: Range<u64>,
        mut flags: Flags<'_>,
        params: ProbeParams,
    ) -> Result<()> {
        let by_groups = self.table.groups.as_ref().filter(|_| self.residual.is_none());
        let wanted = by_groups.filter(|_| flags.build.is_some());
        let mut marks = stream.alloc_zeroed::<u8>(wanted.map_or(0, |groups| groups.rows.len()))?;
        let build_flags = flag_pointer(&mut flags.build, self.table.row_count)?;
        let none = DevicePtrMut::null();
        let params = ProbeParams {
            group_marks: if wanted.is_some() { marks.ptr_mut() } else { none },
            build_flags: if wanted.is_some() { none } else { build_flags },
            probe_flags: flag_pointer(&mut flags.probe, self.probe.row_count)?,
            ..params
        };
        // SAFETY: the caller checked the counts; flags were checked above, and no group's number exceeds the rows'.
        unsafe { self.launch(stream, mode, positions.end - positions.start, &params)? };
        if wanted.is_some() {
            self.table.spread(stream, &marks, build_flags)?;
        }
        Ok(())
    }
}

/// The flags' address, null if not wanted; an error if there are less than rows.
pub(super) fn flag_pointer(flags: &mut Option<DeviceViewMut<'_, u8>>, rows: u64) -> Result<DevicePtrMut<u8>> {
    match flags {
        None => Ok(DevicePtrMut::null()),
        Some(flags) => {
            check_len("flags", flags.len(), rows)?;
            Ok(flags.ptr_mut())
        }
    }
}

/// An error unless there are as many as needed.
pub(super) fn check_len(what: &str, found: u64, needed: u64) -> Result<()> {
    if found >= needed {
        return Ok(());
    }
    Err(GpuError::Invalid(format!("{found} {what}, {needed} needed")))
}

impl Matcher for TableJoin<'_> {
    fn positions(&self) -> u64 {
        self.probe.keys.len()
    }

    fn count(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        mut counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<()> {
        let params = ProbeParams {
            counts: counts.ptr_mut(),
            ..self.params(&positions)?
        };
        check_len("counts", counts.len(), positions.end - positions.start)?;
        self.find(stream, TableJoinMode::Count, positions, flags, params)
    }

    fn write(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        offsets: DeviceView<'_, u64>,
        window: Range<u64>,
        mut pairs: PairsMut<'_>,
    ) -> Result<()> {
        let params = ProbeParams {
            offsets: offsets.ptr(),
            window_from: window.start,
            window_to: window.end,
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            ..self.params(&positions)?
        };
        let (items, len) = (positions.end - positions.start, window.end.saturating_sub(window.start));
        check_len("offsets", offsets.len(), items + 1)?;
        check_len("pairs", pairs.build_rows.len().min(pairs.probe_rows.len()), len)?;
        let (mode, items) = if self.table.is_unique() || !self.residual.is_none() {
            (TableJoinMode::Write, items)
        } else {
            (TableJoinMode::WriteGroups, len)
        };
        // SAFETY: lengths were checked; the window lies within the pairs that the offsets count.
        unsafe { self.launch(stream, mode, items, &params) }
    }

    fn mark(&self, stream: &Stream, positions: Range<u64>, flags: Flags<'_>) -> Result<()> {
        let params = self.params(&positions)?;
        self.find(stream, TableJoinMode::Mark, positions, flags, params)
    }

    fn write_at_once(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        mut pairs: PairsMut<'_>,
        mut count: DeviceViewMut<'_, u64>,
        mut flags: Flags<'_>,
    ) -> Result<bool> {
        if !self.table.is_unique() {
            return Ok(false);
        }
        check_len("counts", count.len(), 1)?;
        let params = ProbeParams {
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            capacity_out: pairs.build_rows.len().min(pairs.probe_rows.len()),
            count_out: count.ptr_mut(),
            build_flags: flag_pointer(&mut flags.build, self.table.row_count)?,
            probe_flags: flag_pointer(&mut flags.probe, self.probe.row_count)?,
            ..self.params(&positions)?
        };
        // SAFETY: outputs of `capacity_out` pairs; flags of all rows.
        unsafe {
            self.launch(
                stream,
                TableJoinMode::WriteAtOnce,
                positions.end - positions.start,
                &params,
            )?
        };
        Ok(true)
    }
}
