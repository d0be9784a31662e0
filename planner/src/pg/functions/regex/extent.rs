//! Matches whose end is looked for apart from their beginning: the longest ones that begin where the engine's first match
//! does, or the shortest.

use super::{SIZE_MAX, Spans, spans};
use parking_lot::Mutex;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::{Anchored, Input, MatchKind, meta};

#[derive(Debug)]
pub(super) struct Extent {
    first: meta::Regex,
    all: PikeVM,
    /// Tells where the longest match ends; none where the shortest is wanted, or where there is no such automaton.
    longest: Option<DFA>,
    /// What a search needs, from the last one.
    caches: Mutex<Option<Caches>>,
    shortest: bool,
}

#[derive(Debug)]
struct Caches {
    all: pikevm::Cache,
    longest: Option<dfa::Cache>,
}

impl Extent {
    /// None: the expression would take too much memory.
    pub(super) fn new(first: meta::Regex, text: &str, shortest: bool) -> Option<Extent> {
        let thompson = || thompson::Config::new().nfa_size_limit(Some(SIZE_MAX));
        let all = PikeVM::builder()
            .configure(PikeVM::config().match_kind(MatchKind::All))
            .thompson(thompson())
            .build(text)
            .ok()?;
        let longest = (!shortest).then_some(()).and_then(|()| {
            // Where words begin, it sees in texts of ASCII alone; others are left to the engine that sees all.
            let config = DFA::config().match_kind(MatchKind::All).unicode_word_boundary(true);
            DFA::builder().configure(config).thompson(thompson()).build(text).ok()
        });
        Some(Extent {
            first,
            all,
            longest,
            caches: Mutex::default(),
            shortest,
        })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.first.is_match(text)
    }

    /// The wanted match that begins at `from` or behind it, and its groups.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Spans> {
        let input = Input::new(text).range(from..);
        let (start, known) = match &self.longest {
            Some(_) => {
                let mut found = self.first.create_captures();
                self.first.search_captures(&input, &mut found);
                (found.get_match()?.start(), Some(found))
            }
            None => (self.first.search(&input)?.start(), None),
        };
        let here = Input::new(text).range(start..).anchored(Anchored::Yes);
        let kept = self.caches.lock().take();
        let mut caches = kept.unwrap_or_else(|| Caches {
            all: self.all.create_cache(),
            longest: self.longest.as_ref().map(DFA::create_cache),
        });
        let found = match known {
            // The way to the first match is that to the longest too, if both end at one place: of all ways that begin here
            // it is the first one, and so it is of those that end there.
            Some(found) if self.longest_end(&mut caches, &here) == found.get_match().map(|found| found.end()) => {
                spans(&found)
            }
            _ => self.search(&mut caches.all, here),
        };
        *self.caches.lock() = Some(caches);
        found
    }

    /// Where the longest match ends that begins where the input does; None where the automaton cannot tell.
    fn longest_end(&self, caches: &mut Caches, here: &Input<'_>) -> Option<usize> {
        let (longest, cache) = (self.longest.as_ref()?, caches.longest.as_mut()?);
        Some(longest.try_search_fwd(cache, here).ok()??.offset())
    }

    /// The wanted match that begins where the input does, with its groups, by one walk that follows all ways.
    fn search(&self, cache: &mut pikevm::Cache, here: Input<'_>) -> Option<Spans> {
        let mut found = self.all.create_captures();
        if !self.shortest {
            self.all.search(cache, &here, &mut found);
            return spans(&found);
        }
        self.all.search(cache, &here.clone().earliest(true), &mut found);
        let (start, end) = (here.start(), found.get_match()?.end());
        self.all.search(cache, &here.range(start..end), &mut found);
        spans(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::prelude::*;

    /// An expression of few letters, whose parts may match in several ways.
    fn expression(rng: &mut StdRng, depth: usize) -> String {
        let mut out = String::new();
        for _ in 0..rng.random_range(1..4) {
            let inner = match depth {
                0 => None,
                _ => Some(expression(rng, depth - 1)),
            };
            let part = match (rng.random_range(0..9), inner) {
                (0 | 1, Some(inner)) => format!("({inner})"),
                (2, Some(inner)) => format!("(?:{inner}|{})", expression(rng, 0)),
                (3, _) => "[^a]".to_string(),
                (4, _) => ".".to_string(),
                (5, _) => ["^", "$", "\\b", "\\B"].choose(rng).unwrap().to_string(),
                _ => ["a", "b", "c", "\u{e9}"].choose(rng).unwrap().to_string(),
            };
            let repeated = !part.starts_with(['^', '$', '\\']);
            out += &part;
            if repeated {
                out += ["", "", "", "?", "*", "+", "{1,2}"].choose(rng).unwrap();
            }
        }
        out
    }

    #[test]
    fn longest_matches_are_those_of_the_walk() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut told, mut left) = (0, 0);
        for _ in 0..3000 {
            let written = expression(&mut rng, 2);
            let (Ok(first), Ok(same)) = (meta::Regex::new(&written), meta::Regex::new(&written)) else {
                continue;
            };
            let fast = Extent::new(first, &written, false).unwrap();
            let plain = Extent {
                longest: None,
                ..Extent::new(same, &written, false).unwrap()
            };
            for _ in 0..10 {
                let length = rng.random_range(0..12);
                let text: String = (0..length)
                    .map(|_| *['a', 'b', 'c', ' ', '\u{e9}'].choose(&mut rng).unwrap())
                    .collect();
                let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                let from = *starts.choose(&mut rng).unwrap();
                let wanted = plain.find(&text, from);
                assert_eq!(
                    fast.find(&text, from),
                    wanted,
                    "seed {seed}: {written:?} in {text:?} from {from}"
                );
                if let Some(spans) = wanted {
                    let here = Input::new(&text).range(spans[0].unwrap().0..).anchored(Anchored::Yes);
                    let mut caches = fast.caches.lock().take().unwrap();
                    match fast.longest_end(&mut caches, &here) {
                        Some(_) => told += 1,
                        None => left += 1,
                    }
                }
            }
        }
        // Both ways have been gone.
        assert!(told > 100 && left > 100, "seed {seed}: {told} {left}");
    }
}
