//! What ALTER ROLE and ALTER DATABASE say of settings: `[IN DATABASE name] SET ...` and `RESET ...`.

use super::{RoleChange, RoleName, is_word, is_word_at, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Reset, Set, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// What becomes of a kept setting.
#[derive(Clone, Debug)]
pub(crate) enum SettingChange {
    /// As SET has it, DEFAULT among the values.
    Set(Box<Set>),
    /// What the session has now.
    FromCurrent(ObjectName),
    Reset(Box<Reset>),
}

/// Whether this comes next, after the name of a role.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    is_word(parser, "set") || is_word(parser, "reset") || (is_word(parser, "in") && is_word_at(parser, 1, "database"))
}

/// Of the sessions of a role; None: of all of them.
pub(super) fn of_role(parser: &mut Parser<'_>, role: Option<RoleName>) -> Result<RoleChange, ParserError> {
    let database = match take_words(parser, &["in", "database"]) {
        true => Some(fold(&parser.parse_identifier()?)),
        false => None,
    };
    Ok(RoleChange::Settings {
        role,
        database,
        change: change(parser)?,
    })
}

/// Of the sessions of all roles in a database.
pub(super) fn of_database(parser: &mut Parser<'_>, name: String) -> Result<RoleChange, ParserError> {
    Ok(RoleChange::Settings {
        role: None,
        database: Some(name),
        change: change(parser)?,
    })
}

fn change(parser: &mut Parser<'_>) -> Result<SettingChange, ParserError> {
    if is_word(parser, "set") {
        let word = |parser: &Parser<'_>, at| matches!(parser.peek_nth_token(at).token, Token::Word(_));
        // What a session says of a transaction, or for one, is nothing to keep.
        if (is_word_at(parser, 1, "local") || is_word_at(parser, 1, "session")) && word(parser, 2) {
            let _ = (parser.next_token(), parser.next_token());
            let next = parser.peek_token();
            return parser.expected("TO or =", next);
        }
        // SET ROLE takes TO for a name.
        if take_words(parser, &["set", "role", "to"]) {
            return Ok(SettingChange::Set(Box::new(Set::SetRole {
                context_modifier: None,
                role_name: Some(parser.parse_identifier()?),
            })));
        }
        if let Some(name) = parser.maybe_parse(from_current)? {
            return Ok(SettingChange::FromCurrent(name));
        }
    } else if take_words(parser, &["reset", "time", "zone"]) {
        let name = ObjectName::from(vec![Ident::new("TimeZone")]);
        return Ok(SettingChange::Reset(Box::new(Reset::ConfigurationParameter(name))));
    } else if !is_word(parser, "reset") {
        let next = parser.peek_token();
        return parser.expected("SET or RESET", next);
    }
    let at = parser.peek_token();
    match parser.parse_statement()? {
        Statement::Set(
            set @ (Set::SingleAssignment { .. }
            | Set::SetTimeZone { .. }
            | Set::SetNames { .. }
            | Set::SetNamesDefault {}
            | Set::SetRole { .. }),
        ) => Ok(SettingChange::Set(Box::new(set))),
        Statement::Reset(reset) => Ok(SettingChange::Reset(Box::new(reset.reset))),
        _ => parser.expected("a setting", at),
    }
}

/// `SET name FROM CURRENT`
fn from_current(parser: &mut Parser<'_>) -> Result<ObjectName, ParserError> {
    let _ = take_words(parser, &["set"]);
    let name = parser.parse_object_name(false)?;
    match take_words(parser, &["from", "current"]) {
        true => Ok(name),
        false => {
            let next = parser.peek_token();
            parser.expected("FROM CURRENT", next)
        }
    }
}
