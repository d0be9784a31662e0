//! CREATE, ALTER and DROP of roles.

use super::{Definition, is_word, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) enum RoleChange {
    Create {
        name: String,
        can_login: bool,
        password: bool,
        /// Roles that are named beside it.
        others: Vec<String>,
    },
    Alter {
        name: String,
        can_login: Option<bool>,
        password: bool,
    },
    Rename {
        from: String,
        to: String,
    },
    Drop {
        if_exists: bool,
        names: Vec<String>,
    },
}

/// Whether a statement with these first words is about roles.
pub(super) fn knows(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    matches!(word(0), "CREATE" | "ALTER" | "DROP")
        && matches!(word(1), "ROLE" | "USER" | "GROUP")
        && word(2) != "MAPPING"
}

/// From the first word of such a statement.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let (verb, kind) = (parser.next_token().token, parser.next_token().token);
    let is_user = kind.to_string().eq_ignore_ascii_case("user");
    let tag = format!("{verb} {kind}").to_uppercase();
    let change = match verb.to_string().to_uppercase().as_str() {
        "DROP" => RoleChange::Drop {
            if_exists: parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
            names: parser.parse_comma_separated(name)?,
        },
        "CREATE" => {
            let name = name(parser)?;
            let options = options(parser)?;
            RoleChange::Create {
                name,
                can_login: options.can_login.unwrap_or(is_user),
                password: options.password,
                others: options.others,
            }
        }
        _ => {
            let from = name(parser)?;
            if take_words(parser, &["rename", "to"]) {
                let to = name(parser)?;
                RoleChange::Rename { from, to }
            } else {
                let options = options(parser)?;
                RoleChange::Alter {
                    name: from,
                    can_login: options.can_login,
                    password: options.password,
                }
            }
        }
    };
    Ok(Definition::Role { tag, change })
}

fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    Ok(fold(&parser.parse_identifier()?))
}

#[derive(Default)]
struct Options {
    can_login: Option<bool>,
    password: bool,
    others: Vec<String>,
}

fn options(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    const FLAGS: [&str; 12] = [
        "superuser",
        "nosuperuser",
        "createdb",
        "nocreatedb",
        "createrole",
        "nocreaterole",
        "inherit",
        "noinherit",
        "replication",
        "noreplication",
        "bypassrls",
        "nobypassrls",
    ];
    let mut options = Options::default();
    let _ = take_words(parser, &["with"]);
    loop {
        if FLAGS.iter().any(|flag| take_words(parser, &[flag])) {
            continue;
        }
        if take_words(parser, &["login"]) {
            options.can_login = Some(true);
        } else if take_words(parser, &["nologin"]) {
            options.can_login = Some(false);
        } else if take_words(parser, &["connection", "limit"]) {
            let _ = parser.consume_token(&Token::Minus);
            parser.parse_value()?;
        } else if take_words(parser, &["valid", "until"]) || take_words(parser, &["sysid"]) {
            parser.parse_value()?;
        } else if take_words(parser, &["encrypted", "password"]) || take_words(parser, &["password"]) {
            options.password |= !is_word(parser, "null");
            parser.parse_value()?;
        } else if take_words(parser, &["in", "role"])
            || take_words(parser, &["in", "group"])
            || take_words(parser, &["role"])
            || take_words(parser, &["user"])
            || take_words(parser, &["admin"])
        {
            options.others.extend(parser.parse_comma_separated(name)?);
        } else {
            return Ok(options);
        }
    }
}
