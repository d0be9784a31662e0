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
pub(super) enum Node {
    Char(char),
    Any,
    /// The inside of a bracket expression, as the engine writes it.
    Class {
        negated: bool,
        items: String,
    },
    Anchor(Anchor),
    Group {
        inner: Box<Node>,
        captures: bool,
    },
    Look {
        inner: Box<Node>,
        ahead: bool,
        negated: bool,
    },
    Reference(u32),
    Repeat {
        inner: Box<Node>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        fixed: bool,
    },
    Concat(Vec<Node>),
    Either(Vec<Node>),
}

impl Node {
    /// Whether the longest or the shortest of its matches is wanted; None where it has no preference.
    pub(super) fn is_greedy(&self) -> Option<bool> {
        match self {
            Node::Group { inner, .. } => inner.is_greedy(),
            Node::Repeat { inner, fixed: true, .. } => inner.is_greedy(),
            Node::Repeat { greedy, .. } => Some(*greedy),
            Node::Concat(parts) => parts.iter().find_map(Node::is_greedy),
            Node::Either(_) => Some(true),
            _ => None,
        }
    }

    /// Whether it needs an engine that goes back: it refers to what it matched, or looks around.
    pub(super) fn looks_around(&self) -> bool {
        self.any(&|node| matches!(node, Node::Look { .. } | Node::Reference(_)))
    }

    pub(super) fn any(&self, wanted: &dyn Fn(&Node) -> bool) -> bool {
        wanted(self)
            || match self {
                Node::Group { inner, .. } | Node::Look { inner, .. } | Node::Repeat { inner, .. } => inner.any(wanted),
                Node::Concat(parts) | Node::Either(parts) => parts.iter().any(|part| part.any(wanted)),
                _ => false,
            }
    }
}
