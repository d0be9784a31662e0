//! FORMAT YAML, laid out as PostgreSQL does.

use super::document::{Item, Members};
use super::json::quoted;

pub(crate) fn text(members: Members) -> String {
    let mut out = "- ".to_string();
    write(&members, 1, true, &mut out);
    out
}

/// `begun`: the first member stands on the line that has been begun.
fn write(members: &[(String, Item)], indent: usize, begun: bool, out: &mut String) {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 || !begun {
            line(indent, out);
        }
        out.push_str(&format!("{name}: "));
        match value {
            Item::Text(text) => out.push_str(&quoted(text)),
            Item::Bare(text) => out.push_str(text),
            Item::Object(members) => write(members, indent + 1, false, out),
            Item::Array(items) => items.iter().for_each(|item| {
                line(indent + 1, out);
                out.push_str("- ");
                match item {
                    Item::Text(text) => out.push_str(&quoted(text)),
                    Item::Bare(text) => out.push_str(text),
                    Item::Object(members) => write(members, indent + 2, true, out),
                    // None of ours has one in another.
                    Item::Array(_) => {}
                }
            }),
        }
    }
}

fn line(indent: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', 2 * indent));
}
