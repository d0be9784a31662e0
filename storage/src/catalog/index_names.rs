//! The names of indexes that nobody has named.

/// Longest name in bytes, as in PostgreSQL (NAMEDATALEN - 1).
const NAME_BYTES_MAX: usize = 63;

/// The name that PostgreSQL gives: `{table}_{columns}_{label}`, the longer of the first two parts cut to fit, with a
/// number where it is taken.
pub fn default_name(table: &str, columns: &[&str], label: &str, is_free: impl Fn(&str) -> bool) -> String {
    let mut joined = String::new();
    for (at, column) in columns.iter().enumerate() {
        let again = columns[..at].iter().filter(|before| *before == column).count();
        let separator = if at == 0 { "" } else { "_" };
        match again {
            0 => joined.push_str(&format!("{separator}{column}")),
            _ => joined.push_str(&format!("{separator}{column}{again}")),
        }
        if joined.len() > NAME_BYTES_MAX {
            break;
        }
    }
    for number in 0.. {
        let label = match number {
            0 => label.to_string(),
            _ => format!("{label}{number}"),
        };
        let name = object_name(table, &joined, &label);
        if is_free(&name) {
            return name;
        }
    }
    unreachable!("numbers do not end")
}

fn object_name(table: &str, columns: &str, label: &str) -> String {
    let separators = if columns.is_empty() { 1 } else { 2 };
    let available = NAME_BYTES_MAX - separators - label.len();
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > available {
        if first > second {
            first -= 1;
        } else {
            second -= 1;
        }
    }
    let (table, columns) = (cut(table, first), cut(columns, second));
    match columns {
        "" => format!("{table}_{label}"),
        _ => format!("{table}_{columns}_{label}"),
    }
}

/// At most `bytes` bytes, and no part of a character.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::default_name;

    #[test]
    fn names_are_made_as_in_postgresql() {
        assert_eq!(default_name("t", &["a", "b"], "idx", |_| true), "t_a_b_idx");
        assert_eq!(default_name("t", &["a", "a"], "idx", |_| true), "t_a_a1_idx");
        assert_eq!(default_name("t", &[], "pkey", |_| true), "t_pkey");
        let taken = |name: &str| name != "t_a_idx" && name != "t_a_idx1";
        assert_eq!(default_name("t", &["a"], "idx", taken), "t_a_idx2");
        let long = "x".repeat(60);
        let name = default_name(&long, &[&"y".repeat(40)], "idx", |_| true);
        assert_eq!(name, format!("{}_{}_idx", "x".repeat(29), "y".repeat(29)));
    }
}
