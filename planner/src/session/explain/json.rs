//! FORMAT JSON, laid out as PostgreSQL does.

use super::document::{Item, Members};

pub(crate) fn text(members: Members) -> String {
    let mut out = String::new();
    write(&Item::Array(vec![Item::Object(members)]), 0, &mut out);
    out
}

/// A text as a string of JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write(item: &Item, indent: usize, out: &mut String) {
    let line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 2 * indent));
    };
    match item {
        Item::Text(text) => out.push_str(&quoted(text)),
        Item::Bare(text) => out.push_str(text),
        Item::Array(items) if items.is_empty() => out.push_str("[]"),
        Item::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(out, indent + 1);
                write(item, indent + 1, out);
            }
            line(out, indent);
            out.push(']');
        }
        Item::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(out, indent + 1);
                out.push_str(&format!("\"{name}\": "));
                write(value, indent + 1, out);
            }
            line(out, indent);
            out.push('}');
        }
    }
}
