//! PostgreSQL's regular expressions, on the engines of the `regex` crates.
//!
//! An expression is read by PostgreSQL's syntax (`read`, `classes`) and written in the engine's (`write`). Where the text
//! has several matches at the first place that has one, PostgreSQL takes the longest or, where the expression prefers it,
//! the shortest; the engine takes the one that a search going back would find first. Expressions for which that may differ
//! are matched twice: once for the place, once for the end and the groups. Back references and lookaround need an engine that
//! goes back, and take its first match.

mod ast;
mod classes;
mod extent;
mod flags;
mod functions;
mod operator;
mod read;
mod replace;
mod similar;
mod write;

pub(crate) use flags::Flags;
pub(super) use functions::{functions, regexp_matches, regexp_split_to_table, substring, substring_similar};
pub(crate) use operator::operator;

use crate::pg::error::Result;
use ast::RegexNode;
use extent::Extent;
use flags::invalid;
use regex_automata::dfa::onepass;
use regex_automata::{Input, meta};
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes that a compiled expression may take.
const SIZE_MAX: usize = 10 << 20;
/// Expressions that a thread keeps compiled.
const KEPT: usize = 32;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Pattern {
    engine: Engine,
    /// Groups that capture.
    pub groups: usize,
}

#[derive(Debug)]
enum Engine {
    /// The first match is the wanted one.
    First(meta::Regex),
    /// The first match tells where to look for the wanted one.
    Extent(Box<Extent>),
    Back(Box<fancy_regex::Regex>),
}

/// Where a match and its groups lie, in bytes.
pub(crate) type Spans = Vec<Option<(usize, usize)>>;

thread_local! {
    static COMPILED: RefCell<Vec<(String, Flags, Arc<Pattern>)>> = const { RefCell::new(Vec::new()) };
}

/// The compiled form of an expression: a kept one, or a new one.
pub(crate) fn compiled(pattern: &str, flags: Flags) -> Result<Arc<Pattern>> {
    let flags = flags.of_pattern();
    COMPILED.with_borrow_mut(|kept| {
        if let Some(at) = kept.iter().position(|(own, by, _)| own == pattern && *by == flags) {
            let found = kept[at].2.clone();
            kept[..=at].rotate_right(1);
            return Ok(found);
        }
        let new = Arc::new(Pattern::new(pattern, flags)?);
        kept.truncate(KEPT - 1);
        kept.insert(0, (pattern.to_string(), flags, new.clone()));
        Ok(new)
    })
}

/// The expression in the engine's spelling, if the engine's answer to whether a text matches is PostgreSQL's.
pub(crate) fn translated(pattern: &str, flags: Flags) -> Result<Option<String>> {
    let read = read::read(pattern, flags.of_pattern())?;
    if read.node.looks_around() {
        return Ok(None);
    }
    compiled(pattern, flags)?;
    Ok(Some(write::write(&read.node, read.flags)))
}

impl Pattern {
    fn new(pattern: &str, flags: Flags) -> Result<Pattern> {
        let read = read::read(pattern, flags)?;
        let text = write::write(&read.node, read.flags);
        let complex = || invalid("regular expression is too complex");
        let groups = read.groups as usize;
        if read.node.looks_around() {
            let back = fancy_regex::RegexBuilder::new(&text)
                .delegate_size_limit(SIZE_MAX)
                .build();
            let engine = Engine::Back(Box::new(back.map_err(|_| complex())?));
            return Ok(Pattern { engine, groups });
        }
        let config = meta::Config::new().nfa_size_limit(Some(SIZE_MAX));
        let first = meta::Builder::new()
            .configure(config)
            .build(&text)
            .map_err(|_| complex())?;
        if is_plain(&read.node)
            && onepass::Builder::new()
                .configure(onepass::Config::new().size_limit(Some(1 << 18)))
                .build(&text)
                .is_ok()
        {
            return Ok(Pattern {
                engine: Engine::First(first),
                groups,
            });
        }
        let shortest = read.node.is_greedy() == Some(false);
        let extent = Extent::new(first, &text, shortest).ok_or_else(complex)?;
        let engine = Engine::Extent(Box::new(extent));
        Ok(Pattern { engine, groups })
    }

    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        match &self.engine {
            Engine::First(first) => Ok(first.is_match(text)),
            Engine::Extent(extent) => Ok(extent.is_match(text)),
            Engine::Back(back) => back
                .is_match(text)
                .map_err(|_| invalid("regular expression is too complex")),
        }
    }

    /// The first match that begins at `from` or behind it, and its groups.
    pub(crate) fn find(&self, text: &str, from: usize) -> Result<Option<Spans>> {
        match &self.engine {
            Engine::First(first) => {
                let mut found = first.create_captures();
                first.search_captures(&Input::new(text).range(from..), &mut found);
                Ok(spans(&found))
            }
            Engine::Extent(extent) => Ok(extent.find(text, from)),
            Engine::Back(back) => {
                let found = back
                    .captures_from_pos(text, from)
                    .map_err(|_| invalid("regular expression is too complex"))?;
                Ok(found.map(|found| found.iter().map(|group| group.map(|g| (g.start(), g.end()))).collect()))
            }
        }
    }
}

fn spans(found: &regex_automata::util::captures::Captures) -> Option<Spans> {
    found.get_match()?;
    Some(
        found
            .iter()
            .map(|span| span.map(|span| (span.start, span.end)))
            .collect(),
    )
}

/// Whether no choice in the expression is between more and less, but for quantifiers that want more: the longest match is then
/// the first one.
fn is_plain(node: &RegexNode) -> bool {
    !node.any(&|node| match node {
        RegexNode::Repeat { greedy, .. } => !greedy,
        RegexNode::Either(_) => true,
        _ => false,
    })
}
