//! Copies, fill and map.

use tenon_gpu::Result;
use tenon_gpu::primitives::{fill::fill, map::map};

use tenon_laboratory::{Bench, random_at, size_text};

use crate::expression;

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
        if !["copy", "fill", "map"].iter().any(|name| bench.wants(name)) {
            continue;
        }
        let sets = bench.sets(items * 8);
        let inputs = (0..sets)
            .map(|s| bench.random_u32(items, s as u64))
            .collect::<Result<Vec<_>>>()?;
        let mut outputs = (0..sets)
            .map(|_| stream.alloc::<u32>(items))
            .collect::<Result<Vec<_>>>()?;
        bench.row(&format!("copy.u32.{size}"), items, items * 8, |run| {
            stream.copy(inputs[run % sets].view(), outputs[run % sets].view_mut())
        })?;
        bench.row(&format!("fill.u32.{size}"), items, items * 4, |run| {
            fill(stream, outputs[run % sets].view_mut(), run as u32)
        })?;
        bench.row(&format!("map.u32.{size}"), items, items * 8, |run| {
            let (input, output) = (inputs[run % sets].view(), outputs[run % sets].view_mut());
            map(stream, input, output, expression("x * 2654435761u + 1u"), &[])
        })?;
        if bench.wants("map") {
            map(
                stream,
                inputs[0].view(),
                outputs[0].view_mut(),
                expression("x * 2654435761u + 1u"),
                &[],
            )?;
            let checked = stream.download(outputs[0].view())?;
            let expected = |i: usize| {
                (random_at(i as u64, 0) as u32)
                    .wrapping_mul(2_654_435_761)
                    .wrapping_add(1)
            };
            assert!(checked.iter().enumerate().all(|(i, &v)| v == expected(i)), "map");
        }
    }
    Ok(())
}
