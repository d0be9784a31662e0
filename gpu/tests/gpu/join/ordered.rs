//! Joins without hashing, as operators under test.

use tenon_cpu::join as cpu;
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::{Directory, RangeMatcher};
use tenon_gpu::join::sort_merge::{self, Ascending};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{Matcher, Residual, Side};
use tenon_gpu::{Result, Stream};

use super::case::Case;
use super::operators::CpuSides;

pub fn sort_merge<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    _: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    let matcher = sort_merge::sort_merge(stream, build, probe, Ascending::default(), residual)?;
    Ok(Box::new(matcher))
}

pub fn indexed<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    _: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    let index = SortedSide::sort(stream, build)?;
    let tree = Directory::Owned(CssTree::build_with(stream, index.keys(), 4)?);
    let matcher = RangeMatcher::new(stream, index, Some(tree), Probe::equal(probe), residual)?;
    Ok(Box::new(matcher))
}

pub fn nested_loop<'a>(
    _: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    _: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    Ok(Box::new(NestedLoopMatcher::equal(build, probe, residual)?))
}

fn cpu_side<'a>((keys, rows): (&'a [u64], &'a [u32])) -> cpu::Side<'a, u64> {
    cpu::Side::new(keys, Some(rows.into())).unwrap()
}

pub fn cpu_sort_merge<'a>(sides: CpuSides<'a>) -> Box<dyn cpu::Matcher + 'a> {
    let (build, probe) = (cpu_side(sides.build), cpu_side(sides.probe));
    Box::new(cpu::RangeMatcher::sort_merge(build, probe, false, false).unwrap())
}

pub fn cpu_indexed<'a>(sides: CpuSides<'a>) -> Box<dyn cpu::Matcher + 'a> {
    let build = cpu_side(sides.build).sorted().unwrap();
    Box::new(cpu::RangeMatcher::new(build, cpu::Probe::equal(cpu_side(sides.probe))))
}

pub fn cpu_nested_loop<'a>(sides: CpuSides<'a>) -> Box<dyn cpu::Matcher + 'a> {
    Box::new(cpu::NestedLoopMatcher::new(
        cpu_side(sides.build),
        cpu_side(sides.probe),
    ))
}
