//! Inputs, the plain reference, and the comparison with it.

use std::collections::HashMap;

use rand::Rng;
use rand::rngs::StdRng;
use tenon_gpu::join::triton::{
    Caller, HostKeys, HostSide, HostValues, TritonOptions, TritonOutput, TritonResult, Wanted, Words, triton_join,
};
use tenon_gpu::join::{JoinKind, Residual};
use tenon_gpu::memory::DevicePtr;
use tenon_gpu::{Device, GpuError, Result};

/// One input: keys, payloads or row numbers, and rows with those that are left out.
#[derive(Clone, Debug)]
pub struct Input {
    pub keys: Vec<u64>,
    pub values: Values,
    pub row_count: u64,
}

#[derive(Clone, Debug)]
pub enum Values {
    Rows,
    Numbers(Vec<u32>),
    Payloads(Vec<u64>),
}

impl Input {
    pub fn rows(keys: Vec<u64>) -> Input {
        Input {
            row_count: keys.len() as u64,
            keys,
            values: Values::Rows,
        }
    }

    /// Leaves rows out at random, as if their keys were null.
    pub fn with_nulls(mut self, rng: &mut StdRng) -> Input {
        let kept: Vec<u32> = (0..self.keys.len() as u32).filter(|_| rng.random_bool(0.8)).collect();
        self.keys = kept.iter().map(|&row| self.keys[row as usize]).collect();
        self.values = Values::Numbers(kept);
        self
    }

    pub fn with_payloads(mut self, rng: &mut StdRng) -> Input {
        self.values = Values::Payloads(self.keys.iter().map(|_| rng.random()).collect());
        self
    }

    pub fn value(&self, i: usize) -> u64 {
        match &self.values {
            Values::Rows => i as u64,
            Values::Numbers(rows) => rows[i] as u64,
            Values::Payloads(values) => values[i],
        }
    }

    fn side<'a>(&'a self, narrow: &'a [u32], wide: bool) -> HostSide<'a> {
        let keys = if wide {
            HostKeys::U64(&self.keys)
        } else {
            HostKeys::U32(narrow)
        };
        let values = match &self.values {
            Values::Rows => HostValues::Rows,
            Values::Numbers(rows) => HostValues::U32(rows),
            Values::Payloads(values) => HostValues::U64(values),
        };
        HostSide::new(keys, values, self.row_count).unwrap()
    }
}

/// A join to run.
#[derive(Clone, Debug)]
pub struct Case {
    pub build: Input,
    pub probe: Input,
    pub wide: bool,
    pub wanted: Wanted,
    /// Keep pairs only whose row numbers sum up to an even number.
    pub residual: bool,
    pub options: TritonOptions,
}

/// A result, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub count: u64,
    pub sum: u64,
    pub pairs: Vec<(u64, u64)>,
    pub build_rows: Vec<u32>,
    pub probe_rows: Vec<u32>,
    pub marks: Vec<u8>,
}

impl Case {
    /// Runs it; gives the answer with what the join says of itself.
    pub fn run(&self, device: &Device, is_cancelled: &dyn Fn() -> bool) -> Result<(Answer, TritonResult)> {
        self.run_for(device, &is_cancelled)
    }

    pub fn run_for(&self, device: &Device, caller: &dyn Caller) -> Result<(Answer, TritonResult)> {
        self.run_with(device, caller, usize::MAX)
    }

    /// Runs it; the sink fails after so many pieces.
    pub fn run_until(&self, device: &Device, pieces: usize) -> Result<(Answer, TritonResult)> {
        self.run_with(device, &|| false, pieces)
    }

    fn run_with(&self, device: &Device, caller: &dyn Caller, mut pieces_left: usize) -> Result<(Answer, TritonResult)> {
        let narrow = |input: &Input| input.keys.iter().map(|&key| key as u32).collect::<Vec<_>>();
        let (build_narrow, probe_narrow) = (narrow(&self.build), narrow(&self.probe));
        let mut answer = Answer::default();
        let mut sink = |output: TritonOutput<'_>| {
            let no_more = || GpuError::Invalid("no more pieces".into());
            pieces_left = pieces_left.checked_sub(1).ok_or_else(no_more)?;
            match output {
                TritonOutput::Pairs { build, probe } => answer.pairs.extend(words(build).into_iter().zip(words(probe))),
                TritonOutput::BuildRows(rows) => answer.build_rows.extend(rows),
                TritonOutput::ProbeRows(rows) => answer.probe_rows.extend(rows),
                TritonOutput::Marks(marks) => answer.marks.extend(marks),
            }
            Ok(())
        };
        let residual = match self.residual {
            true => {
                let body = "return (build_row + probe_row) % p.template literal<u64>(0) == 0;";
                // SAFETY: the body reads no buffer.
                unsafe { Residual::new(body, "", vec![DevicePtr::null()], vec![2], None) }
            }
            false => Residual::none(),
        };
        let result = triton_join(
            device,
            self.build.side(&build_narrow, self.wide),
            self.probe.side(&probe_narrow, self.wide),
            self.wanted,
            &residual,
            &self.options,
            caller,
            &mut sink,
        )?;
        answer.pairs.sort_unstable();
        answer.count = match self.wanted {
            Wanted::Join(kind) if !kind.has_pairs() => 0,
            _ => result.count,
        };
        answer.sum = result.sum;
        Ok((answer, result))
    }

    /// The right answer.
    pub fn expected(&self) -> Answer {
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, &key) in self.build.keys.iter().enumerate() {
            by_key.entry(key).or_default().push(i);
        }
        let mut answer = Answer::default();
        let mut build_found = vec![false; self.build.row_count as usize];
        let mut probe_found = vec![false; self.probe.row_count as usize];
        for (j, key) in self.probe.keys.iter().enumerate() {
            for &i in by_key.get(key).into_iter().flatten() {
                let (build, probe) = (self.build.value(i), self.probe.value(j));
                if self.residual && (build + probe) % 2 != 0 {
                    continue;
                }
                answer.count += 1;
                if self.wanted == Wanted::Aggregate {
                    answer.sum = answer.sum.wrapping_add(build.wrapping_mul(probe));
                } else {
                    if matches!(self.wanted, Wanted::Join(kind) if kind.has_pairs()) {
                        answer.pairs.push((build, probe));
                    }
                    if let Some(found) = build_found.get_mut(build as usize) {
                        *found = true;
                    }
                    if let Some(found) = probe_found.get_mut(probe as usize) {
                        *found = true;
                    }
                }
            }
        }
        answer.pairs.sort_unstable();
        let Wanted::Join(kind) = self.wanted else { return answer };
        let rows = |found: &[bool], set: bool| {
            let rows = (0..found.len() as u32).filter(|&row| found[row as usize] == set);
            rows.collect::<Vec<_>>()
        };
        let marks = |found: &[bool]| found.iter().map(|&f| u8::from(f)).collect();
        use JoinKind::*;
        match kind {
            Inner => {}
            BuildOuter | BuildAnti => answer.build_rows = rows(&build_found, false),
            ProbeOuter | ProbeAnti => answer.probe_rows = rows(&probe_found, false),
            Full => {
                answer.build_rows = rows(&build_found, false);
                answer.probe_rows = rows(&probe_found, false);
            }
            BuildSemi => answer.build_rows = rows(&build_found, true),
            ProbeSemi => answer.probe_rows = rows(&probe_found, true),
            BuildMark => answer.marks = marks(&build_found),
            ProbeMark => answer.marks = marks(&probe_found),
        }
        if !kind.has_pairs() {
            answer.count = 0;
        }
        answer
    }

    /// Runs it and compares.
    pub fn check(&self, device: &Device) -> TritonResult {
        let (answer, result) = self
            .run(device, &|| false)
            .unwrap_or_else(|error| panic!("{error}: {}", self.describe()));
        let expected = self.expected();
        assert!(
            answer == expected,
            "{}: {} pairs of {}, sum {} of {}, rows {} and {} of {} and {}; {result:?}",
            self.describe(),
            answer.count,
            expected.count,
            answer.sum,
            expected.sum,
            answer.build_rows.len(),
            answer.probe_rows.len(),
            expected.build_rows.len(),
            expected.probe_rows.len()
        );
        result
    }

    pub fn describe(&self) -> String {
        format!(
            "{} x {} rows, keys of {} bits, {:?}, residual {}, {:?}",
            self.build.keys.len(),
            self.probe.keys.len(),
            if self.wide { 64 } else { 32 },
            self.wanted,
            self.residual,
            self.options
        )
    }
}

fn words(words: Words<'_>) -> Vec<u64> {
    match words {
        Words::U32(words) => words.iter().map(|&word| word as u64).collect(),
        Words::U64(words) => words.to_vec(),
    }
}

/// How keys are spread.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// Each key of a range once on the build side, at random on the probe side; the range starts here.
    Dense(u64),
    /// Random keys below this, on both sides.
    Below(u64),
    /// A few keys have most of the rows: the k-th of them a share of about 1/k.
    Zipf,
    /// All rows have one key.
    One,
    /// All bits set or none, and random ones.
    Extremes,
}

/// Keys of a build and a probe side.
pub fn keys(rng: &mut StdRng, spread: Spread, build: u64, probe: u64, wide: bool) -> (Vec<u64>, Vec<u64>) {
    let mask = if wide { u64::MAX } else { u32::MAX as u64 };
    let zipf = |rng: &mut StdRng, keys: u64| {
        (((keys as f64).powf(rng.random::<f64>())) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask
    };
    let mut some = |rows: u64, is_build: bool| -> Vec<u64> {
        let mut keys: Vec<u64> = (0..rows)
            .map(|i| match spread {
                Spread::Dense(min) if is_build => min + i,
                Spread::Dense(min) => min + rng.random_range(0..build.max(1) + 5),
                Spread::Below(limit) => rng.random_range(0..limit),
                Spread::Zipf => zipf(rng, rows),
                Spread::One => 7,
                Spread::Extremes => match rng.random_range(0..4) {
                    0 => mask,
                    1 => 0,
                    2 => mask - rng.random_range(0..50),
                    _ => rng.random_range(0..200),
                },
            })
            .collect();
        if matches!(spread, Spread::Dense(_)) && is_build {
            for i in (1..keys.len()).rev() {
                keys.swap(i, rng.random_range(0..i + 1));
            }
        }
        keys
    };
    let build_keys = some(build, true);
    (build_keys, some(probe, false))
}

/// Out of memory of either kind.
pub fn is_out_of_memory<T>(result: &Result<T>) -> bool {
    matches!(result, Err(error) if error.is_out_of_memory())
}

/// Cancelled.
pub fn is_cancelled<T>(result: &Result<T>) -> bool {
    matches!(result, Err(GpuError::Cancelled))
}
