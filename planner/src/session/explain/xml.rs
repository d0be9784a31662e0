//! FORMAT XML, laid out as PostgreSQL does.

use super::document::{Item, Members};

const NAMESPACE: &str = "http://www.postgresql.org/2009/explain";

pub(crate) fn text(members: Members) -> String {
    let mut out = format!("<explain xmlns=\"{NAMESPACE}\">\n");
    element("Query", &Item::Object(members), 1, &mut out);
    out.push_str("</explain>");
    out
}

fn element(name: &str, value: &Item, indent: usize, out: &mut String) {
    let name = tag(name);
    let margin = "  ".repeat(indent);
    match value {
        Item::Text(text) => out.push_str(&format!("{margin}<{name}>{}</{name}>\n", escaped(text))),
        Item::Bare(text) => out.push_str(&format!("{margin}<{name}>{text}</{name}>\n")),
        Item::Array(_) | Item::Object(_) => {
            out.push_str(&format!("{margin}<{name}>\n"));
            match value {
                Item::Object(members) => members
                    .iter()
                    .for_each(|(name, value)| element(name, value, indent + 1, out)),
                Item::Array(items) => items.iter().for_each(|item| {
                    let own = if matches!(item, Item::Object(_)) {
                        "Plan"
                    } else {
                        "Item"
                    };
                    element(own, item, indent + 1, out);
                }),
                Item::Text(_) | Item::Bare(_) => {}
            }
            out.push_str(&format!("{margin}</{name}>\n"));
        }
    }
}

fn tag(name: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().map(|c| if valid(c) { c } else { '-' }).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#x0d;"),
            c => out.push(c),
        }
    }
    out
}
