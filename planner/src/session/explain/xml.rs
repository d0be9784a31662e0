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
    let within: Vec<(&str, &Item)> = match value {
        Item::Text(text) => return out.push_str(&format!("{margin}<{name}>{}</{name}>\n", escaped(text))),
        Item::Bare(text) => return out.push_str(&format!("{margin}<{name}>{text}</{name}>\n")),
        Item::Object(members) => members.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        Item::Array(items) => {
            let of = |item: &Item| {
                if matches!(item, Item::Object(_)) {
                    "Plan"
                } else {
                    "Item"
                }
            };
            items.iter().map(|item| (of(item), item)).collect()
        }
    };
    out.push_str(&format!("{margin}<{name}>\n"));
    for (name, value) in within {
        element(name, value, indent + 1, out);
    }
    out.push_str(&format!("{margin}</{name}>\n"));
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
