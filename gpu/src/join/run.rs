//! A join under way: the kinds of joins made of an operator's pairs and flags, in outputs of bounded size.

use std::ops::Range;

use super::kind::JoinKind;
use super::matcher::{Flags, Matcher, PairsMut};
use crate::error::Result;
use crate::memory::DeviceBuffer;
use crate::number::Reduction;
use crate::primitives::expression::Expression;
use crate::primitives::read::read;
use crate::primitives::scan::exclusive_scan;
use crate::primitives::select::{self, Predicate};
use crate::stop::Stop;
use crate::stream::Stream;

/// How much of a join is done in one step.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Pairs of one output: 8 bytes each.
    pub pairs_max: u64,
    /// Probe keys of one step, 12 bytes each while it runs: also what runs on after a cancel.
    pub positions_max: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        RunLimits {
            pairs_max: 64 << 20,
            positions_max: 64 << 20,
        }
    }
}

/// Row numbers of partners, at the same places.
pub struct Pairs {
    pub build_rows: DeviceBuffer<u32>,
    pub probe_rows: DeviceBuffer<u32>,
}

/// A piece of a join's result.
pub enum JoinOutput {
    Pairs(Pairs),
    /// Build rows that come out alone, ascending.
    BuildRows(DeviceBuffer<u32>),
    /// Probe rows that come out alone, ascending.
    ProbeRows(DeviceBuffer<u32>),
    /// A byte a row: 1 where the row has a partner.
    Marks(DeviceBuffer<u8>),
}

/// The steps of a join:
///
/// ```text
/// Matching (one range of positions after the other)
///    |  ^                         |
///    v  | all windows written     v no range left
/// Writing (pairs by windows)    Alone (rows by their flags: one output for each side) -> done
/// ```
pub struct JoinRun<'a> {
    stream: &'a Stream,
    matcher: &'a dyn Matcher,
    kind: JoinKind,
    limits: RunLimits,
    stop: Stop<'a>,
    build_flags: Option<DeviceBuffer<u8>>,
    probe_flags: Option<DeviceBuffer<u8>>,
    state: JoinPhase,
    /// Passes over probe keys: counting, writing and marking count one each.
    pub passes: u64,
}

enum JoinPhase {
    Matching {
        from: u64,
    },
    Writing {
        positions: Range<u64>,
        offsets: DeviceBuffer<u64>,
        written: u64,
        total: u64,
    },
    Alone,
    Done,
}

impl<'a> JoinRun<'a> {
    /// `build_rows` and `probe_rows` are the rows of the sides, with those whose keys are null.
    pub fn new(
        stream: &'a Stream,
        matcher: &'a dyn Matcher,
        kind: JoinKind,
        build_rows: u64,
        probe_rows: u64,
        limits: RunLimits,
    ) -> Result<JoinRun<'a>> {
        let flags = |wanted: bool, rows| wanted.then(|| stream.alloc_zeroed::<u8>(rows)).transpose();
        Ok(JoinRun {
            stream,
            matcher,
            kind,
            limits: RunLimits {
                pairs_max: limits.pairs_max.max(1),
                positions_max: limits.positions_max.min(matcher.step_positions()).max(1),
            },
            stop: Stop::never(),
            build_flags: flags(kind.flags_build(), build_rows)?,
            probe_flags: flags(kind.flags_probe(), probe_rows)?,
            state: JoinPhase::Matching { from: 0 },
            passes: 0,
        })
    }

    /// The same join, which ends after the step at hand once the work is no longer wanted.
    pub fn unless(self, stop: Stop<'a>) -> JoinRun<'a> {
        JoinRun { stop, ..self }
    }

    /// The next piece; `None` after the last. Pieces without rows do not come.
    pub fn next_output(&mut self) -> Result<Option<JoinOutput>> {
        loop {
            self.stop.check()?;
            match std::mem::replace(&mut self.state, JoinPhase::Done) {
                JoinPhase::Matching { from } if from >= self.matcher.positions() => self.state = JoinPhase::Alone,
                JoinPhase::Matching { from } => {
                    let to = self.matcher.positions().min(from + self.limits.positions_max);
                    if let Some(pairs) = self.step(from..to)? {
                        return Ok(Some(JoinOutput::Pairs(pairs)));
                    }
                }
                JoinPhase::Writing {
                    positions,
                    offsets,
                    written,
                    total,
                } => {
                    if written == total {
                        self.state = JoinPhase::Matching { from: positions.end };
                        continue;
                    }
                    let window = written..total.min(written + self.limits.pairs_max);
                    let mut pairs = self.alloc_pairs(window.end - window.start)?;
                    self.passes += 1;
                    self.matcher.write(
                        self.stream,
                        positions.clone(),
                        offsets.view(),
                        window.clone(),
                        pairs.view_mut(),
                    )?;
                    self.state = JoinPhase::Writing {
                        positions,
                        offsets,
                        written: window.end,
                        total,
                    };
                    return Ok(Some(JoinOutput::Pairs(pairs)));
                }
                JoinPhase::Alone => {
                    if let Some(output) = self.alone()? {
                        return Ok(Some(output));
                    }
                }
                JoinPhase::Done => return Ok(None),
            }
        }
    }

    /// One range of positions: sets the next state, and gives its pairs if they came at once.
    fn step(&mut self, positions: Range<u64>) -> Result<Option<Pairs>> {
        let next = JoinPhase::Matching { from: positions.end };
        self.passes += 1;
        if !self.kind.has_pairs() {
            let flags = flags_of(&mut self.build_flags, &mut self.probe_flags);
            self.matcher.mark(self.stream, positions, flags)?;
            // Steps that wait in the stream would run on after a cancel.
            self.stream.synchronize()?;
            self.state = next;
            return Ok(None);
        }
        if let Some(pairs) = self.at_once(positions.clone())? {
            self.state = next;
            return Ok((!pairs.build_rows.is_empty()).then_some(pairs));
        }
        let items = positions.end - positions.start;
        let mut counts = self.stream.alloc::<u32>(items)?;
        let mut offsets = self.stream.alloc::<u64>(items + 1)?;
        let flags = flags_of(&mut self.build_flags, &mut self.probe_flags);
        self.matcher
            .count(self.stream, positions.clone(), counts.view_mut(), flags)?;
        exclusive_scan(self.stream, counts.view(), offsets.view_mut(), Reduction::Sum)?;
        drop(counts);
        let total = read(self.stream, offsets.slice(items..)?)?[0];
        self.state = JoinPhase::Writing {
            positions,
            offsets,
            written: 0,
            total,
        };
        Ok(None)
    }

    /// Pairs by one pass, if the operator has one and no more than `pairs_max` come out.
    fn at_once(&mut self, positions: Range<u64>) -> Result<Option<Pairs>> {
        let guess = (positions.end - positions.start).max(1024);
        if guess > self.limits.pairs_max {
            return Ok(None);
        }
        let mut pairs = self.alloc_pairs(guess)?;
        let mut count = self.stream.alloc_zeroed::<u64>(1)?;
        let flags = flags_of(&mut self.build_flags, &mut self.probe_flags);
        let done = self
            .matcher
            .write_at_once(self.stream, positions, pairs.view_mut(), count.view_mut(), flags)?;
        if !done {
            return Ok(None);
        }
        let found = read(self.stream, count.view())?[0];
        if found > guess {
            self.passes += 1;
            return Ok(None);
        }
        pairs.build_rows.truncate(found);
        pairs.probe_rows.truncate(found);
        Ok(Some(pairs))
    }

    /// What comes out of the flags; the flags of a side are given up when their rows are out.
    fn alone(&mut self) -> Result<Option<JoinOutput>> {
        use JoinKind::*;
        let wanted = matches!(self.kind, BuildSemi | ProbeSemi);
        for build in [true, false] {
            let flags = if build {
                &mut self.build_flags
            } else {
                &mut self.probe_flags
            };
            let Some(flags) = flags.take() else { continue };
            if matches!(self.kind, BuildMark | ProbeMark) {
                return Ok(Some(JoinOutput::Marks(flags)));
            }
            self.state = JoinPhase::Alone;
            let rows = rows_where(self.stream, &flags, wanted)?;
            if rows.is_empty() {
                continue;
            }
            return Ok(Some(match build {
                true => JoinOutput::BuildRows(rows),
                false => JoinOutput::ProbeRows(rows),
            }));
        }
        self.state = JoinPhase::Done;
        Ok(None)
    }

    fn alloc_pairs(&self, len: u64) -> Result<Pairs> {
        Ok(Pairs {
            build_rows: self.stream.alloc(len)?,
            probe_rows: self.stream.alloc(len)?,
        })
    }
}

impl Pairs {
    fn view_mut(&mut self) -> PairsMut<'_> {
        PairsMut {
            build_rows: self.build_rows.view_mut(),
            probe_rows: self.probe_rows.view_mut(),
        }
    }
}

fn flags_of<'a>(build: &'a mut Option<DeviceBuffer<u8>>, probe: &'a mut Option<DeviceBuffer<u8>>) -> Flags<'a> {
    Flags {
        build: build.as_mut().map(|flags| flags.view_mut()),
        probe: probe.as_mut().map(|flags| flags.view_mut()),
    }
}

/// The rows whose flag is set, or is not.
fn rows_where(stream: &Stream, flags: &DeviceBuffer<u8>, set: bool) -> Result<DeviceBuffer<u32>> {
    let predicate = Predicate {
        // SAFETY: it reads its argument.
        expression: unsafe { Expression::new(if set { "x != 0" } else { "x == 0" }) },
        literals: &[],
    };
    let mut rows = stream.alloc::<u32>(flags.len())?;
    let mut count = stream.alloc_zeroed::<u64>(1)?;
    select::select_indexes_where(stream, flags.view(), predicate, rows.view_mut(), count.view_mut())?;
    let count = read(stream, count.view())?[0];
    rows.truncate(count);
    Ok(rows)
}
