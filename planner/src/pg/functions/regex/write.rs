//! Writes an expression in the spelling of the engine.

use super::ast::{Anchor, RegexNode};
use super::classes::push_char;
use super::flags::Flags;

/// The whole expression.
pub(super) fn write(node: &RegexNode, mut flags: Flags) -> String {
    flags.back = node.looks_around();
    let mut out = String::new();
    if flags.ignore_case {
        out.push_str("(?i)");
    }
    part(node, flags, None, &mut out);
    out
}

/// `force` says what all quantifiers in a part prefer whose own quantifier prefers it.
fn part(node: &RegexNode, flags: Flags, force: Option<bool>, out: &mut String) {
    match node {
        RegexNode::Char(c) => push_char(*c, out),
        RegexNode::Any => out.push_str(if flags.stop_at_lines { "[^\\n]" } else { "(?s:.)" }),
        RegexNode::Class { negated, items } => {
            out.push_str(if *negated { "[^" } else { "[" });
            out.push_str(items);
            out.push(']');
        }
        RegexNode::Anchor(anchor) => out.push_str(match anchor {
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
        RegexNode::Group { inner, captures } => {
            out.push_str(if *captures { "(" } else { "(?:" });
            part(inner, flags, force, out);
            out.push(')');
        }
        RegexNode::Look { inner, ahead, negated } => {
            out.push_str(match (ahead, negated) {
                (true, false) => "(?=",
                (true, true) => "(?!",
                (false, false) => "(?<=",
                (false, true) => "(?<!",
            });
            part(inner, flags, None, out);
            out.push(')');
        }
        RegexNode::Reference(group) => out.push_str(&format!("(?:\\{group})")),
        RegexNode::Repeat {
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
        RegexNode::Concat(parts) => parts.iter().for_each(|node| part(node, flags, force, out)),
        RegexNode::Either(parts) => {
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

fn quantifiers(node: &RegexNode) -> usize {
    match node {
        RegexNode::Repeat { inner, .. } => 1 + quantifiers(inner),
        RegexNode::Group { inner, .. } => quantifiers(inner),
        RegexNode::Concat(parts) | RegexNode::Either(parts) => parts.iter().map(quantifiers).sum(),
        _ => 0,
    }
}
