//! Whether a fragment runs on the device: what it takes there and on the CPU, as far as sizes tell.
//!
//! On one H200 a pipeline reads at a quarter to a half of the memory's rate, and a run takes some tenths of a millisecond
//! beside its pipelines (`bench/results/tpch-h200-gpu.txt`). What the CPU takes for a row depends on what is done with it: little
//! more than the least of TPC-H's queries is assumed.

use crate::join::cost::CostParameters;

/// Starting a run, waiting for it and reading its result.
const RUN_S: f64 = 350.0e-6;
/// Beside the launch of a pipeline: its arrays, and what of a kernel's time does not depend on rows.
const PIPELINE_S: f64 = 12.0e-6;
/// Of the memory's rate, a pipeline's.
const SHARE_OF_RATE: f64 = 0.2;
/// A row of a scan and all that is done with it, as many times as reading it alone: in one pipeline, in several, and at most.
const WORK_OF_ONE: f64 = 1.5;
const WORK_OF_SEVERAL: f64 = 3.0;
const WORK_AT_MOST: f64 = 5.0;
/// Words of 64 bits that the device puts in order, with their rows' places; what a core takes to put a row in order and to
/// go through it in that order.
const ORDERED_WORDS_PER_S: f64 = 2.5e9;
const CPU_ORDERED_ROW_S: f64 = 200.0e-9;
/// A value that the host reads from the device, one core alone.
const GIVEN_VALUE_S: f64 = 4.0e-9;
/// The same of a group's value, which that core makes of what was added up.
const GROUPED_VALUE_S: f64 = 100.0e-9;
/// A byte that a core looks at.
const CPU_BYTE_S: f64 = 0.25e-9;
/// On the CPU: starting a query's threads, and what each pipeline's threads wait for each other, of so many rows or more.
const THREADS_S: f64 = 100.0e-6;
const CPU_PIPELINE_S: f64 = 200.0e-6;
const CPU_PIPELINE_ROWS: f64 = 500.0e3;
const PIPELINES_AT_MOST: usize = 10;
/// Others' pipelines are not waited for to their end: the device takes turns between them.
const TURN_S: f64 = 1.0e-3;
const TURNS: f64 = 4.0;
/// The GPU must be that much faster: the model is not that exact.
const CLEARLY: f64 = 1.25;

/// A fragment's sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Of all scans.
    pub rows: u64,
    /// 0: they are not known yet.
    pub pipelines: usize,
    /// Columns that pipelines read, and those of them that must be copied to the device first.
    pub read_bytes: u64,
    pub absent_bytes: u64,
    /// Arrays that are set before pipelines run.
    pub set_bytes: u64,
    /// Words that rows are put in order by: one a row at least.
    pub ordered_words: u64,
    /// Values of the rows that the host reads.
    pub given_values: u64,
    /// Values of the groups that the host reads.
    pub grouped_values: u64,
    /// Work of others on the device that it waits for.
    pub queued_s: f64,
    /// What the CPU took when it did the same before, and what the device did.
    pub seen_cpu_s: Option<f64>,
    pub seen_gpu_s: Option<f64>,
}

impl Work {
    /// On so many cores.
    pub fn cpu_s(&self, machine: &CostParameters, cores: usize) -> f64 {
        self.seen_cpu_s.unwrap_or_else(|| self.expected_cpu_s(machine, cores))
    }

    fn expected_cpu_s(&self, machine: &CostParameters, cores: usize) -> f64 {
        let (work, pipelines) = match self.pipelines {
            0 => (WORK_AT_MOST, PIPELINES_AT_MOST),
            1 => (WORK_OF_ONE, 1),
            several => (WORK_OF_SEVERAL, several),
        };
        let rows_s = self.rows as f64 * work / machine.cpu.scanned_rows_per_s;
        let share = (self.rows as f64 / CPU_PIPELINE_ROWS).min(1.0);
        let waiting_s = if cores > 1 {
            pipelines as f64 * CPU_PIPELINE_S * share
        } else {
            0.0
        };
        let ordered_s = self.ordered_words as f64 * CPU_ORDERED_ROW_S;
        let bytes_s = self.read_bytes as f64 * CPU_BYTE_S;
        THREADS_S + waiting_s + (rows_s + bytes_s + ordered_s) / cores.max(1) as f64
    }

    /// The same behind others.
    pub fn after(self, queued_s: f64) -> Self {
        Self { queued_s, ..self }
    }

    /// On the device, with its columns there.
    pub fn gpu_s(&self, machine: &CostParameters) -> f64 {
        let gpu = &machine.gpu;
        let reading_s = self.read_bytes as f64 / (gpu.memory_bytes_per_s * SHARE_OF_RATE)
            + self.set_bytes as f64 / gpu.memory_bytes_per_s;
        let ordered_s = self.ordered_words as f64 / ORDERED_WORDS_PER_S;
        let running_s = self.pipelines as f64 * (gpu.launch_s + PIPELINE_S)
            + reading_s
            + ordered_s
            + self.given_values as f64 * GIVEN_VALUE_S
            + self.grouped_values as f64 * GROUPED_VALUE_S;
        let running_s = self.seen_gpu_s.unwrap_or(RUN_S + running_s);
        self.queued_s.min(TURN_S + TURNS * running_s) + running_s
    }

    /// What was seen has its copies in it.
    pub fn copying_s(&self, machine: &CostParameters) -> f64 {
        if self.seen_gpu_s.is_some() {
            return 0.0;
        }
        self.absent_bytes as f64 / machine.gpu.pinned_to_device_bytes_per_s
    }

    /// Whether the GPU is clearly faster with what it must copy, or without.
    pub fn pays(&self, machine: &CostParameters, cores: usize, with_copies: bool) -> bool {
        let copying_s = if with_copies { self.copying_s(machine) } else { 0.0 };
        let clearly = match self.seen_cpu_s.and(self.seen_gpu_s) {
            Some(_) => 1.0,
            None => CLEARLY,
        };
        (self.gpu_s(machine) + copying_s) * clearly < self.cpu_s(machine, cores)
    }

    /// Both in words.
    pub fn told(&self, machine: &CostParameters, cores: usize) -> String {
        let ms = |seconds: f64| seconds * 1e3;
        format!(
            "{:.1} ms {} on gpu, {:.1} of copies before, {:.1} {}on cpu",
            ms(self.gpu_s(machine)),
            if self.seen_gpu_s.is_some() { "seen" } else { "expected" },
            ms(self.copying_s(machine)),
            ms(self.cpu_s(machine, cores)),
            if self.seen_cpu_s.is_some() { "seen " } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(rows: u64, resident: bool) -> Work {
        Work {
            rows,
            pipelines: 1,
            read_bytes: rows * 8,
            absent_bytes: if resident { 0 } else { rows * 8 },
            ..Work::default()
        }
    }

    #[test]
    fn what_is_there_runs_where_it_is_faster() {
        let machine = CostParameters::default();
        assert!(!scan(100_000, true).pays(&machine, 16, true), "few rows");
        assert!(scan(60_000_000, true).pays(&machine, 16, true), "many rows");
        assert!(
            !scan(60_000_000, false).pays(&machine, 16, true),
            "copies cost more than the CPU"
        );
        assert!(
            scan(60_000_000, false).pays(&machine, 16, false),
            "but the next run is faster"
        );
        assert!(
            scan(60_000_000, false).pays(&machine, 1, true),
            "one core is slower than the bus"
        );
    }

    /// What goes back row by row must have been worth it.
    #[test]
    fn rows_that_are_given_back_cost() {
        let machine = CostParameters::default();
        let sorted = |given_values| Work {
            pipelines: 3,
            ordered_words: 10_000_000,
            given_values,
            ..scan(10_000_000, true)
        };
        assert!(sorted(100).pays(&machine, 16, true), "the first rows of an order");
        assert!(
            sorted(20_000_000).pays(&machine, 1, true),
            "one core orders more slowly"
        );
        assert!(!sorted(100_000_000).pays(&machine, 64, true), "many cores, many values");
    }

    /// Groups that are many are not worth what one core makes of them.
    #[test]
    fn groups_that_are_given_back_cost() {
        let machine = CostParameters::default();
        let grouped = |grouped_values| Work {
            grouped_values,
            ..scan(60_000_000, true)
        };
        assert!(grouped(100).pays(&machine, 16, true), "few groups");
        assert!(!grouped(30_000_000).pays(&machine, 16, true), "many groups");
    }

    /// What the CPU was seen to take counts, whatever was expected of it.
    #[test]
    fn what_was_seen_counts() {
        let machine = CostParameters::default();
        let seen = |ms: f64| Work {
            seen_cpu_s: Some(ms / 1e3),
            ..scan(60_000_000, false)
        };
        assert!(seen(500.0).pays(&machine, 16, true));
        assert!(!seen(5.0).pays(&machine, 16, true));
        assert!(seen(5.0).told(&machine, 16).contains("5.0 seen on cpu"));
        let both = |gpu: f64, cpu: f64| Work {
            seen_gpu_s: Some(gpu / 1e3),
            ..seen(cpu)
        };
        assert!(both(4.9, 5.0).pays(&machine, 16, true), "nothing is guessed");
        assert!(!both(5.1, 5.0).pays(&machine, 16, true));
    }

    /// More rows never make the other place the better one again.
    #[test]
    fn there_is_one_crossing() {
        let machine = CostParameters::default();
        for cores in [1, 2, 16, 64] {
            let better: Vec<bool> = (0..40)
                .map(|bits| scan(1 << bits, true).pays(&machine, cores, true))
                .collect();
            assert!(better.is_sorted(), "{cores} cores");
        }
    }
}
