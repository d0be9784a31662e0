//! How an expression is read and matched: the letters of flags and of `(?...)`.

use crate::pg::error::{Result, SqlError, SqlState, state};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    pub ignore_case: bool,
    /// `.` and negated brackets stop at line breaks.
    pub stop_at_lines: bool,
    /// `^` and `$` match at line breaks.
    pub anchor_at_lines: bool,
    pub literal: bool,
    pub expanded: bool,
    /// Written for the engine that goes back.
    pub(super) back: bool,
    /// All matches: only from a function's flags.
    pub global: bool,
}

impl Flags {
    /// The flags argument of the regexp functions.
    pub(crate) fn parse(letters: &str) -> Result<Flags> {
        let mut flags = Flags::default();
        for letter in letters.chars() {
            if letter == 'g' {
                flags.global = true;
            } else if !flags.set(letter)? {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(flags)
    }

    /// Sets what a letter says; false for an unknown one.
    pub(super) fn set(&mut self, letter: char) -> Result<bool> {
        match letter {
            'c' => self.ignore_case = false,
            'i' => self.ignore_case = true,
            'm' | 'n' => (self.stop_at_lines, self.anchor_at_lines) = (true, true),
            'p' => (self.stop_at_lines, self.anchor_at_lines) = (true, false),
            'w' => (self.stop_at_lines, self.anchor_at_lines) = (false, true),
            's' => (self.stop_at_lines, self.anchor_at_lines) = (false, false),
            'q' => self.literal = true,
            't' => self.expanded = false,
            'x' => self.expanded = true,
            // Extended expressions are read as advanced ones, which they are but for escapes.
            'e' => {}
            'b' => return Err(SqlError::unsupported("a basic regular expression (option b)")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The same without what only a function's caller looks at.
    pub(super) fn of_pattern(mut self) -> Flags {
        self.global = false;
        self
    }
}

pub(super) fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState("2201B"), format!("invalid regular expression: {what}"))
}
