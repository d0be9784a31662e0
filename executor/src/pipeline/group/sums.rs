//! Sums of few groups: a thread's or a block's own, and those of all in the end.

use tenon_gpu::tuning::PIPELINE_THREADS;

use super::super::flow::Flow;
use super::Update;

/// One group: in registers.
pub fn in_registers(flow: &mut Flow, updates: &[Update], global: &[Vec<String>]) {
    for (cell, (update, words)) in updates.iter().zip(global).enumerate() {
        let own: Vec<String> = (0..update.own_words()).map(|word| format!("c{cell}_{word}")).collect();
        for name in &own {
            flow.begin += &format!("    u64 {name} = 0;\n");
        }
        flow.line(&update.line(&own, true));
        flow.end += &update.reduced(
            &own,
            &words.iter().map(|array| format!("{array}[0]")).collect::<Vec<_>>(),
        );
    }
}

/// Few groups: each thread's own, in shared memory, so that no two threads meet.
pub fn in_own(flow: &mut Flow, updates: &[Update], global: &[Vec<String>], (slot, slots, width): (&str, u64, usize)) {
    let threads = PIPELINE_THREADS;
    flow.shared_bytes = (slots * width as u64 * 8) as u32 * threads;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = 0; i < {}u; i++) own[i * {threads}u + threadIdx.x] = 0;\n",
        slots * width as u64
    );
    flow.end += &format!("    for (u32 slot = 0; slot < {slots}u; slot++) {{\n");
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            let word = |word: usize| {
                format!(
                    "own[({slot} * {width}u + {}u) * {threads}u + threadIdx.x]",
                    first + word
                )
            };
            (0..update.own_words()).map(word).collect()
        };
        flow.line(&update.line(&at(slot), true));
        flow.end += &update.reduced(
            &at("slot"),
            &words.iter().map(|array| format!("{array}[slot]")).collect::<Vec<_>>(),
        );
        first += update.own_words();
    }
    flow.end += "    }\n";
}

/// More groups: a block's, in shared memory.
pub fn in_shared(
    flow: &mut Flow,
    updates: &[Update],
    global: &[Vec<String>],
    (slot, slots, width): (&str, u64, usize),
) {
    let all = slots * width as u64;
    flow.shared_bytes = (all * 8) as u32;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = threadIdx.x; i < {all}u; i += blockDim.x) own[i] = 0;\n    __syncthreads();\n"
    );
    flow.end +=
        &format!("    __syncthreads();\n    for (u32 slot = threadIdx.x; slot < {slots}u; slot += blockDim.x) {{\n");
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            (0..words.len())
                .map(|word| format!("own[{}u * {slots}u + {slot}]", first + word))
                .collect()
        };
        flow.line(&update.line(&at(slot), false));
        let to: Vec<String> = words.iter().map(|array| format!("{array}[slot]")).collect();
        flow.end += &format!("        {}\n", update.flushed(&at("slot"), &to));
        first += words.len();
    }
    flow.end += "    }\n";
}
