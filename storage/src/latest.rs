//! What was made of a text, kept while the same text comes again: patterns and the like, of which a column's rows have one.

/// Holds what was made last.
#[derive(Debug)]
pub struct Latest<T>(Option<(String, T)>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Latest<T> {
    /// What `make` makes of the text, asked for where the text is not the last one.
    pub fn of<E>(&mut self, text: &str, make: impl FnOnce(&str) -> Result<T, E>) -> Result<&T, E> {
        let known = self.0.take().filter(|(of, _)| of == text);
        let known = match known {
            Some(known) => known,
            None => (text.to_owned(), make(text)?),
        };
        Ok(&self.0.insert(known).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_for_each_run_of_a_text() {
        let (mut latest, mut made) = (Latest::default(), 0);
        let mut length = |text: &str| {
            let found = latest.of(text, |text| {
                made += 1;
                if text.is_empty() { Err(()) } else { Ok(text.len()) }
            });
            found.copied()
        };
        let found = ["a", "a", "bb", "", "bb", "bb", "a"].map(&mut length);
        assert_eq!(found, [Ok(1), Ok(1), Ok(2), Err(()), Ok(2), Ok(2), Ok(1)]);
        assert_eq!(made, 5);
    }
}
