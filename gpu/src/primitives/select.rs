//! Select and compact, partition in two, unique and run-length encode: one stable pass with decoupled look-back
//! (Merrill and Garland 2016), after the count, scan and write of He 2008, sections 3.1.4 and 4.2.
//!
//! More than 400 lines because all selections are one kernel, whose choices and outputs are put together here.
//!
//! Every function writes how many items it chose to the one element of `count`. Outputs may be shorter than that: what
//! does not fit is left out, and `count` still tells the full number. Elements have 1, 2, 4, 8 or 16 bytes; for wide
//! records select the indexes and gather. Reads each input once; allocates 8 bytes a tile of 32 KiB.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut, Element};
use crate::primitives::expression::Expression;
use crate::primitives::fill::{Index, bits_type, fill};
use crate::primitives::map::LITERALS_MAX;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// Outputs that the program does not write are null, with capacity 0.
    struct SelectParams {
        input: DevicePtr<u8>,
        flags: DevicePtr<u8>,
        items: u64,
        literals: [u64; LITERALS_MAX],
        states: DevicePtrMut<u64>,
        selected: DevicePtrMut<u8>,
        selected_capacity: u64,
        rejected: DevicePtrMut<u8>,
        rejected_capacity: u64,
        indexes: DevicePtrMut<u8>,
        indexes_capacity: u64,
        count: DevicePtrMut<u64>,
    }
}

static SOURCE: Source = source!("select.cu", SelectParams);

/// How items are chosen.
#[derive(Clone, Copy)]
enum Choice<'a> {
    Flags(DeviceView<'a, u8>),
    Where(Predicate<'a>),
    Changes,
}

/// A condition on an item `x`.
#[derive(Clone, Copy, Debug)]
pub struct Predicate<'a> {
    pub expression: Expression<'a>,
    /// Bits of 64-bit values, at most [`LITERALS_MAX`].
    pub literals: &'a [u64],
}

/// What a program writes.
#[derive(Clone, Copy, Default)]
struct Writes {
    items: bool,
    rejected: bool,
    indexes: Option<&'static str>,
}

/// The shape of a selection's blocks: a block is a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectShape {
    pub threads: u32,
    /// Blocks that a multiprocessor shall hold at once: bounds the registers of a thread.
    pub blocks: u32,
}

impl SelectShape {
    /// What measured best.
    pub const BEST: SelectShape = SelectShape {
        threads: tuning::SELECT_THREADS,
        blocks: tuning::SELECT_BLOCKS,
    };
}

impl Default for SelectShape {
    fn default() -> Self {
        SelectShape::BEST
    }
}

fn program(item: &str, choice: &Choice<'_>, writes: Writes) -> Program {
    shaped_program(item, choice, writes, SelectShape::BEST)
}

fn shaped_program(item: &str, choice: &Choice<'_>, writes: Writes, shape: SelectShape) -> Program {
    let program = Program::new(&SOURCE)
        .define("SHAPE_THREADS", shape.threads)
        .define("SHAPE_BLOCKS", shape.blocks)
        .define("ITEM", item)
        .define("WRITE_ITEMS", writes.items as u32)
        .define("WRITE_REJECTED", writes.rejected as u32)
        .define("WRITE_INDEXES", writes.indexes.is_some() as u32)
        .define("INDEX", writes.indexes.unwrap_or("u32"));
    match choice {
        Choice::Flags(_) => program.define("CHOICE", 0),
        Choice::Changes => program.define("CHOICE", 2),
        Choice::Where(predicate) => program.define("CHOICE", 1).header(
            "predicate.cuh",
            format!(
                "TENON_DEVICE bool predicate(ITEM x, const Literals& literal) {{\n    return {};\n}}\n",
                predicate.expression
            ),
        ),
    }
}

/// Specialisations in use, and examples of predicates.
pub fn programs() -> Vec<Program> {
    let items = Writes {
        items: true,
        ..Writes::default()
    };
    let both = Writes {
        rejected: true,
        ..items
    };
    let indexes = |name| Writes {
        indexes: Some(name),
        ..Writes::default()
    };
    let nonzero = Choice::Where(NONZERO);
    let mut programs = vec![
        program("u8", &nonzero, indexes("u32")),
        program("u8", &nonzero, indexes("u64")),
    ];
    for item in ["u8", "u16", "u32", "u64", "u128"] {
        programs.push(program(item, &Choice::Flags(DeviceView::empty()), items));
        programs.push(program(item, &Choice::Flags(DeviceView::empty()), both));
        programs.push(program(item, &Choice::Changes, items));
        programs.push(program(
            item,
            &Choice::Changes,
            Writes {
                indexes: Some("u32"),
                ..items
            },
        ));
    }
    programs.push(program(
        "u64",
        &Choice::Changes,
        Writes {
            indexes: Some("u64"),
            ..items
        },
    ));
    let less = Predicate {
        // SAFETY: it reads its argument and a literal.
        expression: unsafe { Expression::new("x < literal.template get<f64>(0)") },
        literals: &[],
    };
    programs.push(program("f64", &Choice::Where(less), items));
    programs.push(program("f64", &Choice::Where(less), both));
    programs.push(program("i32", &Choice::Where(less), indexes("u32")));
    programs
}

/// Flags taken as items.
const NONZERO: Predicate<'static> = Predicate {
    // SAFETY: it reads its argument.
    expression: unsafe { Expression::new("x != 0") },
    literals: &[],
};

/// Address and elements of an output.
#[derive(Clone, Copy, Default)]
struct Output {
    address: u64,
    capacity: u64,
}

impl Output {
    fn of<T: Element>(view: &mut DeviceViewMut<'_, T>) -> Output {
        Output {
            address: view.ptr_mut().0,
            capacity: view.len(),
        }
    }
}

/// What one call selects from and writes to.
#[derive(Default)]
struct Outputs {
    selected: Output,
    rejected: Output,
    indexes: Output,
    writes: Writes,
    shape: SelectShape,
}

fn run<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    choice: Choice<'_>,
    outputs: Outputs,
    mut count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let bytes = size_of::<T>();
    if !bytes.is_power_of_two() || bytes > 16 || align_of::<T>() < bytes {
        return Err(GpuError::Invalid(format!("select of elements of {bytes} bytes")));
    }
    if count.len() != 1 {
        return Err(GpuError::Invalid(format!("a count of {} elements", count.len())));
    }
    if outputs.writes.indexes == Some("u32") && input.len() > u32::MAX as u64 {
        return Err(GpuError::Invalid(format!("32-bit indexes of {} items", input.len())));
    }
    // A predicate needs the type; for the rest its size is enough.
    let mut item = bits_type::<T>();
    let (mut flags, mut literals) = (DevicePtr::null(), [0; LITERALS_MAX]);
    match &choice {
        Choice::Flags(view) if view.len() != input.len() => {
            return Err(GpuError::Invalid(format!(
                "{} flags for {} items",
                view.len(),
                input.len()
            )));
        }
        Choice::Flags(view) => flags = DevicePtr::new(view.ptr().0),
        Choice::Where(predicate) => {
            item = T::C_NAME;
            let given = predicate.literals;
            let Some(target) = literals.get_mut(..given.len()) else {
                return Err(GpuError::Invalid(format!(
                    "{} literals, at most {LITERALS_MAX}",
                    given.len()
                )));
            };
            target.copy_from_slice(given);
        }
        Choice::Changes => {}
    }
    if input.is_empty() {
        return stream.set_bytes(count, 0);
    }
    let items_per_pack = (16 / bytes as u64).min(4);
    let threads = outputs.shape.threads;
    let tile = threads as u64 * 4 * items_per_pack;
    let config = LaunchConfig::cover(input.len(), tile, threads)?;
    let mut states = stream.alloc_zeroed::<u64>(config.blocks())?;
    let params = SelectParams {
        input: DevicePtr::new(input.ptr().0),
        flags,
        items: input.len(),
        literals,
        states: states.ptr_mut(),
        selected: DevicePtrMut::new(outputs.selected.address),
        selected_capacity: outputs.selected.capacity,
        rejected: DevicePtrMut::new(outputs.rejected.address),
        rejected_capacity: outputs.rejected.capacity,
        indexes: DevicePtrMut::new(outputs.indexes.address),
        indexes_capacity: outputs.indexes.capacity,
        count: count.ptr_mut(),
    };
    let module = stream
        .device()
        .load(&shaped_program(item, &choice, outputs.writes, outputs.shape))?;
    let kernel = module.kernel::<SelectParams>("select")?;
    // SAFETY: inputs have `items` elements, writes are checked against capacities, the states have one word a block.
    unsafe { kernel.launch(stream, &config, &params) }
}

fn items_into<T: Element>(output: &mut DeviceViewMut<'_, T>) -> Outputs {
    Outputs {
        selected: Output::of(output),
        writes: Writes {
            items: true,
            ..Writes::default()
        },
        ..Outputs::default()
    }
}

/// Writes the items whose flag is not 0 to `output`, in order.
pub fn select_by_flags<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    flags: DeviceView<'_, u8>,
    mut output: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    run(stream, input, Choice::Flags(flags), items_into(&mut output), count)
}

/// Writes the items that fulfil the predicate to `output`, in order.
pub fn select_where<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    predicate: Predicate<'_>,
    mut output: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    run(stream, input, Choice::Where(predicate), items_into(&mut output), count)
}

/// As [`select_where`] in another shape, to measure it.
pub fn select_where_shaped<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    predicate: Predicate<'_>,
    mut output: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
    shape: SelectShape,
) -> Result<()> {
    let outputs = Outputs {
        shape,
        ..items_into(&mut output)
    };
    run(stream, input, Choice::Where(predicate), outputs, count)
}

/// Writes the indexes of flags that are not 0 to `output`, in order.
pub fn select_indexes<I: Index>(
    stream: &Stream,
    flags: DeviceView<'_, u8>,
    output: DeviceViewMut<'_, I>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    select_indexes_where(stream, flags, NONZERO, output, count)
}

/// Writes the indexes of items that fulfil the predicate to `output`, in order.
pub fn select_indexes_where<T: Element, I: Index>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    predicate: Predicate<'_>,
    mut output: DeviceViewMut<'_, I>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let outputs = Outputs {
        indexes: Output::of(&mut output),
        writes: Writes {
            indexes: Some(I::C_NAME),
            ..Writes::default()
        },
        ..Outputs::default()
    };
    run(stream, input, Choice::Where(predicate), outputs, count)
}

/// Splits in two: items whose flag is not 0 to `selected`, the others to `rejected`, both in order.
pub fn partition_by_flags<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    flags: DeviceView<'_, u8>,
    mut selected: DeviceViewMut<'_, T>,
    mut rejected: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let outputs = both_into(&mut selected, &mut rejected);
    run(stream, input, Choice::Flags(flags), outputs, count)
}

/// Splits in two: items that fulfil the predicate to `selected`, the others to `rejected`, both in order.
pub fn partition_where<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    predicate: Predicate<'_>,
    mut selected: DeviceViewMut<'_, T>,
    mut rejected: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let outputs = both_into(&mut selected, &mut rejected);
    run(stream, input, Choice::Where(predicate), outputs, count)
}

fn both_into<T: Element>(selected: &mut DeviceViewMut<'_, T>, rejected: &mut DeviceViewMut<'_, T>) -> Outputs {
    Outputs {
        selected: Output::of(selected),
        rejected: Output::of(rejected),
        writes: Writes {
            items: true,
            rejected: true,
            indexes: None,
        },
        ..Outputs::default()
    }
}

/// Writes each item that differs in its bits from the one before it: of sorted input, the distinct values.
pub fn unique<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    mut output: DeviceViewMut<'_, T>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    run(stream, input, Choice::Changes, items_into(&mut output), count)
}

/// Run-length encodes: the value of each run of items with equal bits, and the offsets of the runs. `offsets` has one
/// element more than there are runs, the last being the number of items: run `k` has
/// `offsets[k + 1] - offsets[k]` items, and offsets serve [`segmented_reduce`](super::segmented::segmented_reduce).
pub fn run_length_encode<T: Element, I: Index>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    mut values: DeviceViewMut<'_, T>,
    mut offsets: DeviceViewMut<'_, I>,
    count: DeviceViewMut<'_, u64>,
) -> Result<()> {
    if input.is_empty() && !offsets.is_empty() {
        fill(stream, offsets.reborrow().slice(..1)?, I::from_low(0))?;
    }
    let outputs = Outputs {
        selected: Output::of(&mut values),
        indexes: Output::of(&mut offsets),
        writes: Writes {
            items: true,
            rejected: false,
            indexes: Some(I::C_NAME),
        },
        ..Outputs::default()
    };
    run(stream, input, Choice::Changes, outputs, count)
}
