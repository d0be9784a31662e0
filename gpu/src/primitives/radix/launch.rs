//! The launches of a radix sort or split.
//!
//! More than 400 lines because the passes of sort and split are one launch with its cases.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceViewMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

use super::tuning::RadixTuning;

/// `CodeParams` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodeParams {
    pub literals: [u64; 4],
    pub shift: u32,
    pub mask: u32,
    pub code_max: u32,
    pub digit_flip: u32,
}

kernel_params! {
    /// Counts of `passes` digits of `items` keys.
    struct HistogramParams {
        keys: DevicePtr<u8>,
        items: u64,
        counts: DevicePtrMut<u64>,
        code: CodeParams,
        passes: u32,
        first_bit: u32,
        last_bit: u32,
        unused: u32,
    }
}
kernel_params! {
    /// First places of bins, and which passes run.
    struct PlanParams {
        counts: DevicePtr<u64>,
        bases: DevicePtrMut<u64>,
        trivial: DevicePtrMut<u32>,
        plan: DevicePtrMut<PassPlan>,
        offsets: DevicePtrMut<u64>,
        items: u64,
        passes: u32,
        in_place: u32,
        offset_count: u32,
        unused: u32,
    }
}
kernel_params! {
    /// One pass over one portion.
    struct PassParams {
        keys_in: DevicePtr<u8>,
        keys_temporary: DevicePtrMut<u8>,
        keys_out: DevicePtrMut<u8>,
        payload_in: DevicePtr<u8>,
        payload_temporary: DevicePtrMut<u8>,
        payload_out: DevicePtrMut<u8>,
        places: DevicePtrMut<u8>,
        plan: DevicePtr<PassPlan>,
        bases_in: DevicePtr<u64>,
        bases_out: DevicePtrMut<u64>,
        states: DevicePtrMut<u32>,
        ticket: DevicePtrMut<u32>,
        first_item: u64,
        items: u64,
        code: CodeParams,
        tiles: u32,
        tiles_max: u32,
        pass: u32,
        portion: u32,
        portions: u32,
        unused: u32,
    }
}

/// `PassPlan` of the kernels, written and read on the device only.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PassPlan {
    order: u32,
    source: u32,
    target: u32,
    unused: u32,
}

static SOURCE: Source = source!("radix.cu", HistogramParams, PlanParams, PassParams);

/// Items that one launch of a pass takes at most: a multiple of every tile is chosen below it, and counts of a portion
/// fit the 30 bits of a descriptor.
const PORTION_ITEMS: u64 = 1 << 28;

/// How items become digits.
#[derive(Clone, Debug)]
pub(crate) struct Digits {
    /// Literals of the code; 0 and 1 hold the bits to turn over when the code is the key itself.
    pub literals: [u64; 4],
    /// Bits of the code that count, from the least significant: `first_bit..last_bit`.
    pub first_bit: u32,
    pub last_bit: u32,
    /// Codes above count as this one; for custom codes.
    pub code_max: u32,
    /// `u32 custom_code(KEY key, CodeLiterals literal)`, if the code is not the key itself.
    pub custom: Option<String>,
}

/// A family of passes: element types and shape. All passes of a call come from one program.
#[derive(Clone, Debug)]
pub(crate) struct Radix {
    pub key_type: &'static str,
    pub key_bytes: u32,
    pub float: bool,
    pub payload_bytes: u32,
    /// Bits of a digit: 8, 6 or 4.
    pub radix_bits: u32,
    pub stable: bool,
    /// Write places (4 or 8 bytes each) instead of items; 0 for items. One pass only.
    pub scatter_bytes: u32,
    pub digits: Digits,
    pub tuning: RadixTuning,
    /// Items of a portion; tests make it small.
    pub portion_items: u64,
    /// Places of 64 bits whatever the number of items; tests ask for it.
    pub wide: bool,
}

/// Where the items are and go: addresses, of arrays as long as the input.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub keys_in: u64,
    pub keys_temporary: u64,
    /// 0 if nobody wants the keys (one pass, or temporaries only).
    pub keys_out: u64,
    /// 0: the payload is the item's number.
    pub payload_in: u64,
    pub payload_temporary: u64,
    pub payload_out: u64,
    /// The input may be overwritten: the data goes to and fro between input and temporary, and ends in the input after
    /// an even number of passes, else in the temporary.
    pub in_place: bool,
}

/// Besides the items.
pub(crate) struct Outputs<'a> {
    /// First place of each partition and at the end the number of items, for splits of one pass.
    pub offsets: Option<DeviceViewMut<'a, u64>>,
    /// Address of the places to write.
    pub places: u64,
}

impl Radix {
    /// Radix passes for keys (by kernel type) and payload bytes; the digits are set by the caller.
    pub fn new(key_type: &'static str, key_bytes: u32, float: bool, payload_bytes: u32, digits: Digits) -> Radix {
        Radix {
            key_type,
            key_bytes,
            float,
            payload_bytes,
            radix_bits: 8,
            stable: true,
            scatter_bytes: 0,
            digits,
            tuning: RadixTuning::of(key_bytes, payload_bytes),
            portion_items: PORTION_ITEMS,
            wide: false,
        }
    }

    /// Passes over the data.
    pub fn passes(&self) -> u32 {
        (self.digits.last_bit - self.digits.first_bit)
            .div_ceil(self.radix_bits)
            .max(1)
    }

    /// The compiled program; `wide`: places need more than 32 bits.
    pub fn program(&self, wide: bool) -> Program {
        let program = Program::new(&SOURCE)
            .define("KEY", self.key_type)
            .define("KEY_FLOAT", self.float as u32)
            .define("PAYLOAD_BYTES", self.payload_bytes)
            .define("OFFSET", if wide { "u64" } else { "u32" })
            .define("RADIX_BITS", self.radix_bits)
            .define("STABLE", self.stable as u32)
            .define("SCATTER_BYTES", self.scatter_bytes)
            .define("THREADS", self.tuning.threads)
            .define("ITEMS", self.tuning.items)
            .define("BLOCKS", self.tuning.blocks);
        match &self.digits.custom {
            Some(text) => program.define("CUSTOM_CODE", 1).header("code.cuh", text.clone()),
            None => program,
        }
    }

    fn code(&self, pass: u32) -> CodeParams {
        let shift = self.digits.first_bit + pass * self.radix_bits;
        let bits = self
            .radix_bits
            .min(self.digits.last_bit - shift.min(self.digits.last_bit));
        let mask = (1 << bits) - 1;
        let flip = self.digits.literals[0] as u128 | (self.digits.literals[1] as u128) << 64;
        CodeParams {
            literals: self.digits.literals,
            shift,
            mask,
            code_max: self.digits.code_max,
            digit_flip: (flip >> shift.min(127)) as u32 & mask,
        }
    }

    /// Runs all passes over `items` items.
    ///
    /// # Safety
    /// The addresses cover `items` elements of the program's types, of buffers that stay until the stream is past the
    /// call, and do not overlap.
    pub unsafe fn run(&self, stream: &Stream, buffers: Buffers, items: u64, outputs: Outputs<'_>) -> Result<()> {
        if items == 0 {
            return match outputs.offsets {
                Some(offsets) => stream.set_bytes(offsets, 0),
                None => Ok(()),
            };
        }
        let passes = self.passes();
        let bins = 1u64 << self.radix_bits;
        let tile = self.tuning.tile();
        let portion_items = (self.portion_items / tile).max(1) * tile;
        let portions = items.div_ceil(portion_items);
        let tiles_max = items.min(portion_items).div_ceil(tile);
        let launches = passes as u64 * portions;

        // One zeroed piece: counts, tickets, trivial flags, descriptors of the first launch. Then what needs no zeroes.
        let count_words = passes as u64 * bins * 2;
        let ticket_words = (launches + passes as u64 + 1).next_multiple_of(4);
        let state_words = tiles_max * bins;
        let zeroed_words = count_words + ticket_words + if self.stable { state_words } else { 0 };
        let base_words = passes as u64 * 2 * bins * 2;
        let plan_words = passes as u64 * 4;
        let all_words = zeroed_words + base_words + plan_words + if self.stable { state_words } else { 0 };
        // The second array of descriptors follows the first at once.
        let mut scratch = stream.alloc::<u32>(all_words)?;
        let word = |index: u64| index * 4;
        let start = scratch.ptr_mut().0;
        let plan_at = 0;
        let bases_at = plan_at + plan_words;
        let counts_at = bases_at + base_words;
        let tickets_at = counts_at + count_words;
        let trivial_at = tickets_at + launches;
        let states_at = tickets_at + ticket_words;
        stream.set_bytes(scratch.slice_mut(counts_at..counts_at + zeroed_words)?, 0)?;

        let wide = items > u32::MAX as u64 || self.wide;
        let module = stream.device().load(&self.program(wide))?;
        let histogram = module.kernel::<HistogramParams>("radix_histogram")?;
        let plan = module.kernel::<PlanParams>("radix_plan")?;
        let pass_kernel = module.kernel::<PassParams>("radix_pass")?;

        let shared = passes * bins as u32 * tuning::RADIX_HISTOGRAM_COPIES * 4;
        let threads = tuning::RADIX_HISTOGRAM_THREADS;
        let resident = histogram.resident_blocks(threads, shared)?.max(1) * stream.device().info().multiprocessors;
        let batch = threads as u64 * tuning::RADIX_HISTOGRAM_ITEMS as u64;
        let blocks = items.div_ceil(batch).min(resident as u64) as u32;
        let params = HistogramParams {
            keys: DevicePtr::new(buffers.keys_in),
            items,
            counts: DevicePtrMut::new(start + word(counts_at)),
            code: self.code(0),
            passes,
            first_bit: self.digits.first_bit,
            last_bit: self.digits.last_bit,
            unused: 0,
        };
        // SAFETY: the keys are the caller's promise; counts for `passes * bins` numbers are in the scratch.
        unsafe { histogram.launch(stream, &LaunchConfig::new(blocks, threads).shared(shared), &params)? };

        let (offsets, offset_count) = match outputs.offsets {
            Some(mut view) => (view.ptr_mut(), view.len()),
            None => (DevicePtrMut::null(), 0),
        };
        if offset_count > bins + 1 {
            return Err(GpuError::Invalid(format!(
                "{offset_count} offsets of {bins} partitions"
            )));
        }
        let params = PlanParams {
            counts: DevicePtr::new(start + word(counts_at)),
            bases: DevicePtrMut::new(start + word(bases_at)),
            trivial: DevicePtrMut::new(start + word(trivial_at)),
            plan: DevicePtrMut::new(start + word(plan_at)),
            offsets,
            items,
            passes,
            in_place: buffers.in_place as u32,
            offset_count: offset_count as u32,
            unused: 0,
        };
        // SAFETY: scratch of the lengths that the kernel documents; the offsets' length is passed.
        unsafe { plan.launch(stream, &LaunchConfig::new(passes, (bins as u32).max(32)), &params)? };

        let warps = self.tuning.threads / 32;
        let shared = (self.tuning.tile() as u32) * (self.key_bytes + self.payload_bytes) + warps * bins as u32 * 4;
        for pass in 0..passes {
            for portion in 0..portions {
                let first_item = portion * portion_items;
                let portion_len = (items - first_item).min(portion_items);
                let tiles = portion_len.div_ceil(tile) as u32;
                // Each portion leaves the bases of the next; an unstable pass counts them up where they are.
                let bases = |half: u64| start + word(bases_at + (pass as u64 * 2 + half) * bins * 2);
                let (from, to) = match self.stable {
                    true => (bases(portion & 1), bases((portion + 1) & 1)),
                    false => (bases(0), bases(0)),
                };
                let params = PassParams {
                    keys_in: DevicePtr::new(buffers.keys_in),
                    keys_temporary: DevicePtrMut::new(buffers.keys_temporary),
                    keys_out: DevicePtrMut::new(buffers.keys_out),
                    payload_in: DevicePtr::new(buffers.payload_in),
                    payload_temporary: DevicePtrMut::new(buffers.payload_temporary),
                    payload_out: DevicePtrMut::new(buffers.payload_out),
                    places: DevicePtrMut::new(outputs.places),
                    plan: DevicePtr::new(start + word(plan_at)),
                    bases_in: DevicePtr::new(from),
                    bases_out: DevicePtrMut::new(to),
                    states: DevicePtrMut::new(start + word(states_at)),
                    ticket: DevicePtrMut::new(start + word(tickets_at + pass as u64 * portions + portion)),
                    first_item,
                    items: portion_len,
                    code: self.code(pass),
                    tiles,
                    tiles_max: tiles_max as u32,
                    pass,
                    portion: portion as u32,
                    portions: portions as u32,
                    unused: 0,
                };
                let config = LaunchConfig::new(tiles, self.tuning.threads).shared(shared);
                // SAFETY: buffers are the caller's promise; scratch has the lengths that the kernel documents.
                unsafe { pass_kernel.launch(stream, &config, &params)? };
            }
        }
        Ok(())
    }
}

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    let plain = |literals, last_bit| Digits {
        literals,
        first_bit: 0,
        last_bit,
        code_max: u32::MAX,
        custom: None,
    };
    let mut programs = Vec::new();
    // Each key type and each payload once or more, not all pairs: a program takes a second to compile.
    for (key_type, key_bytes, float, payload_bytes) in [
        ("u8", 1, false, 4),
        ("u16", 2, false, 0),
        ("u32", 4, false, 0),
        ("u32", 4, false, 4),
        ("u32", 4, false, 8),
        ("u64", 8, false, 0),
        ("u64", 8, false, 4),
        ("u64", 8, false, 8),
        ("u128", 16, false, 4),
        ("f32", 4, true, 4),
        ("f64", 8, true, 8),
    ] {
        let radix = Radix::new(key_type, key_bytes, float, payload_bytes, plain([0; 4], 8 * key_bytes));
        programs.push(radix.program(false));
    }
    let base = Radix::new("u32", 4, false, 4, plain([0; 4], 8));
    programs.push(base.program(true));
    for radix_bits in [4, 6] {
        programs.push(
            Radix {
                radix_bits,
                ..base.clone()
            }
            .program(false),
        );
    }
    programs.push(
        Radix {
            stable: false,
            ..base.clone()
        }
        .program(false),
    );
    for scatter_bytes in [4, 8] {
        programs.push(
            Radix {
                scatter_bytes,
                payload_bytes: 0,
                ..base.clone()
            }
            .program(false),
        );
    }
    programs
}
