//! Writes an expression in the spelling of the engine.

use super::ast::{Anchor, Node};
use super::classes::push_char;
use super::flags::Flags;

/// The whole expression.
pub(super) fn write(node: &Node, mut flags: Flags) -> String {
    flags.back = node.looks_around();
    let mut out = String::new();
    if flags.ignore_case {
        out.push_str("(?i)");
    }
    part(node, flags, None, &mut out);
    out
}

/// `force` says what all quantifiers in a part prefer whose own quantifier prefers it.
fn part(node: &Node, flags: Flags, force: Option<bool>, out: &mut String) {
    match node {
        Node::Char(c) => push_char(*c, out),
        Node::Any => out.push_str(if flags.stop_at_lines { "[^\\n]" } else { "(?s:.)" }),
        Node::Class { negated, items } => {
            out.push_str(if *negated { "[^" } else { "[" });
            out.push_str(items);
            out.push(']');
        }
        Node::Anchor(anchor) => out.push_str(match anchor {
            Anchor::Start if flags.anchor_at_lines => "(?m:^)",
            Anchor::End if flags.anchor_at_lines => "(?m:$)",
            Anchor::Start => "^",
            Anchor::End => "$",
            Anchor::TextStart => r"\A",
            Anchor::TextEnd => r"\z",
            Anchor::WordStart if flags.back => r"(?:\b(?=\w))",
            Anchor::WordEnd if flags.back => r"(?:\b(?<=\w))",
            Anchor::WordStart => r"\b{start}",
            Anchor::WordEnd => r"\b{end}",
            Anchor::WordEdge => r"\b",
            Anchor::NoWordEdge => r"\B",
        }),
        Node::Group { inner, captures } => {
            out.push_str(if *captures { "(" } else { "(?:" });
            part(inner, flags, force, out);
            out.push(')');
        }
        Node::Look { inner, ahead, negated } => {
            out.push_str(match (ahead, negated) {
                (true, false) => "(?=",
                (true, true) => "(?!",
                (false, false) => "(?<=",
                (false, true) => "(?<!",
            });
            part(inner, flags, None, out);
            out.push(')');
        }
        Node::Reference(group) => out.push_str(&format!("(?:\\{group})")),
        Node::Repeat {
            inner,
            min,
            max,
            greedy,
            ..
        } => {
            let greedy = force.unwrap_or(*greedy);
            if (*min, *max) == (1, Some(1)) {
                // Several quantifiers that want less make a whole that is long only by them all.
                let force = if greedy && quantifiers(inner) > 1 {
                    force
                } else {
                    Some(greedy)
                };
                return part(inner, flags, force, out);
            }
            out.push_str("(?:");
            part(inner, flags, force, out);
            out.push(')');
            match (min, max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (min, None) => out.push_str(&format!("{{{min},}}")),
                (min, Some(max)) if min == max => out.push_str(&format!("{{{min}}}")),
                (min, Some(max)) => out.push_str(&format!("{{{min},{max}}}")),
            }
            if !greedy {
                out.push('?');
            }
        }
        Node::Concat(parts) => parts.iter().for_each(|node| part(node, flags, force, out)),
        Node::Either(parts) => {
            out.push_str("(?:");
            for (at, branch) in parts.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                part(branch, flags, force, out);
            }
            out.push(')');
        }
    }
}

fn quantifiers(node: &Node) -> usize {
    match node {
        Node::Repeat { inner, .. } => 1 + quantifiers(inner),
        Node::Group { inner, .. } => quantifiers(inner),
        Node::Concat(parts) | Node::Either(parts) => parts.iter().map(quantifiers).sum(),
        _ => 0,
    }
}
