//! The parts of a regular expression.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// `^` and `$`: of the text, or of a line where lines count.
    Start,
    End,
    /// `\A` and `\Z`.
    TextStart,
    TextEnd,
    /// `\m`, `\M`, `\y`, `\Y`.
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

#[derive(Clone, Debug)]
pub(super) enum RegexNode {
    Char(char),
    Any,
    /// The inside of a bracket expression, as the engine writes it.
    Class {
        negated: bool,
        items: String,
    },
    Anchor(Anchor),
    Group {
        inner: Box<RegexNode>,
        captures: bool,
    },
    Look {
        inner: Box<RegexNode>,
        ahead: bool,
        negated: bool,
    },
    Reference(u32),
    Repeat {
        inner: Box<RegexNode>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        fixed: bool,
    },
    Concat(Vec<RegexNode>),
    Either(Vec<RegexNode>),
}

impl RegexNode {
    /// Whether the longest or the shortest of its matches is wanted; None where it has no preference.
    pub(super) fn is_greedy(&self) -> Option<bool> {
        match self {
            RegexNode::Group { inner, .. } => inner.is_greedy(),
            RegexNode::Repeat { inner, fixed: true, .. } => inner.is_greedy(),
            RegexNode::Repeat { greedy, .. } => Some(*greedy),
            RegexNode::Concat(parts) => parts.iter().find_map(RegexNode::is_greedy),
            RegexNode::Either(_) => Some(true),
            _ => None,
        }
    }

    /// Whether it needs an engine that goes back: it refers to what it matched, or looks around.
    pub(super) fn looks_around(&self) -> bool {
        self.any(&|node| matches!(node, RegexNode::Look { .. } | RegexNode::Reference(_)))
    }

    pub(super) fn any(&self, wanted: &dyn Fn(&RegexNode) -> bool) -> bool {
        wanted(self)
            || match self {
                RegexNode::Group { inner, .. } | RegexNode::Look { inner, .. } | RegexNode::Repeat { inner, .. } => {
                    inner.any(wanted)
                }
                RegexNode::Concat(parts) | RegexNode::Either(parts) => parts.iter().any(|part| part.any(wanted)),
                _ => false,
            }
    }
}
