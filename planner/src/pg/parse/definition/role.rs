//! CREATE, ALTER and DROP of roles.

use super::{Definition, SettingChange, is_word, setting, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// How a statement names a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleName {
    Named(String),
    Current,
    Session,
    Public,
}

#[derive(Clone, Debug)]
pub(crate) enum RoleChange {
    Create {
        name: RoleName,
        options: Box<RoleOptions>,
    },
    Alter {
        name: RoleName,
        options: Box<RoleOptions>,
    },
    /// ALTER GROUP: members that come or (false) go.
    Members {
        name: RoleName,
        add: bool,
        members: Vec<RoleName>,
    },
    Rename {
        from: RoleName,
        to: RoleName,
    },
    Drop {
        if_exists: bool,
        names: Vec<RoleName>,
    },
    /// What sessions of the role begin with in a database; None: of all roles, in all databases.
    Settings {
        role: Option<RoleName>,
        database: Option<String>,
        change: SettingChange,
    },
}

/// What CREATE and ALTER ROLE say; None: nothing.
#[derive(Clone, Default)]
pub(crate) struct RoleOptions {
    pub superuser: Option<bool>,
    pub create_db: Option<bool>,
    pub create_role: Option<bool>,
    pub inherit: Option<bool>,
    pub can_login: Option<bool>,
    pub replication: Option<bool>,
    pub bypass_rls: Option<bool>,
    pub connection_limit: Option<i64>,
    pub valid_until: Option<String>,
    /// `Some(None)`: NULL.
    pub password: Option<Option<String>>,
    /// Roles that it becomes a member of.
    pub within: Vec<RoleName>,
    pub members: Vec<RoleName>,
    pub admins: Vec<RoleName>,
    /// An option was said twice.
    pub repeated: bool,
}

/// Without the password.
impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleOptions").finish_non_exhaustive()
    }
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
    let kind = kind.to_string().to_uppercase();
    // GROUP is another word for ROLE.
    let shown = if kind == "USER" { "ROLE" } else { kind.as_str() };
    let verb = verb.to_string().to_uppercase();
    let tag = format!("{verb} {}", if shown == "GROUP" { "ROLE" } else { shown });
    let change = match verb.as_str() {
        "DROP" => RoleChange::Drop {
            if_exists: parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
            names: parser.parse_comma_separated(name)?,
        },
        "CREATE" => {
            let name = name(parser)?;
            let mut options = options(parser)?;
            options.can_login = options.can_login.or(Some(kind == "USER"));
            RoleChange::Create {
                name,
                options: Box::new(options),
            }
        }
        _ => alter(parser, &kind)?,
    };
    Ok(Definition::Role { tag, change })
}

fn alter(parser: &mut Parser<'_>, kind: &str) -> Result<RoleChange, ParserError> {
    let all = is_word(parser, "all");
    let from = name(parser)?;
    if take_words(parser, &["rename", "to"]) {
        return Ok(RoleChange::Rename {
            from,
            to: name(parser)?,
        });
    }
    if kind == "GROUP" {
        let add = take_words(parser, &["add", "user"]);
        if !add && !take_words(parser, &["drop", "user"]) {
            let next = parser.peek_token();
            return parser.expected("ADD USER or DROP USER", next);
        }
        return Ok(RoleChange::Members {
            name: from,
            add,
            members: parser.parse_comma_separated(name)?,
        });
    }
    if setting::is_next(parser) {
        return setting::of_role(parser, (!all).then_some(from));
    }
    Ok(RoleChange::Alter {
        name: from,
        options: Box::new(options(parser)?),
    })
}

/// A role's name, or what stands for one.
pub(crate) fn name(parser: &mut Parser<'_>) -> Result<RoleName, ParserError> {
    parser.parse_identifier().map(|ident| named(&ident))
}

pub(crate) fn named(ident: &Ident) -> RoleName {
    let name = fold(ident);
    match name.as_str() {
        "current_user" | "current_role" if ident.quote_style.is_none() => RoleName::Current,
        "session_user" if ident.quote_style.is_none() => RoleName::Session,
        "public" => RoleName::Public,
        _ => RoleName::Named(name),
    }
}

fn options(parser: &mut Parser<'_>) -> Result<RoleOptions, ParserError> {
    let mut options = RoleOptions::default();
    let _ = take_words(parser, &["with"]);
    loop {
        let flags: [(&str, &mut Option<bool>); 7] = [
            ("superuser", &mut options.superuser),
            ("createdb", &mut options.create_db),
            ("createrole", &mut options.create_role),
            ("inherit", &mut options.inherit),
            ("login", &mut options.can_login),
            ("replication", &mut options.replication),
            ("bypassrls", &mut options.bypass_rls),
        ];
        let mut found = false;
        for (word, flag) in flags {
            let negative = format!("no{word}");
            let yes = take_words(parser, &[word]);
            if yes || take_words(parser, &[&negative]) {
                options.repeated |= flag.replace(yes).is_some();
                found = true;
                break;
            }
        }
        if found {
            continue;
        }
        if take_words(parser, &["connection", "limit"]) {
            let sign = if parser.consume_token(&Token::Minus) { -1 } else { 1 };
            let limit = i64::try_from(parser.parse_literal_uint()?).unwrap_or(i64::MAX);
            options.repeated |= options.connection_limit.replace(sign * limit).is_some();
        } else if take_words(parser, &["valid", "until"]) {
            let until = parser.parse_literal_string()?;
            options.repeated |= options.valid_until.replace(until).is_some();
        } else if take_words(parser, &["sysid"]) {
            parser.parse_literal_uint()?;
        } else if take_words(parser, &["encrypted", "password"]) || take_words(parser, &["password"]) {
            let password = match parser.parse_keyword(Keyword::NULL) {
                true => None,
                false => Some(parser.parse_literal_string()?),
            };
            options.repeated |= options.password.replace(password).is_some();
        } else if take_words(parser, &["in", "role"]) || take_words(parser, &["in", "group"]) {
            options.within.extend(parser.parse_comma_separated(name)?);
        } else if take_words(parser, &["role"]) || take_words(parser, &["user"]) {
            options.members.extend(parser.parse_comma_separated(name)?);
        } else if take_words(parser, &["admin"]) {
            options.admins.extend(parser.parse_comma_separated(name)?);
        } else {
            return Ok(options);
        }
    }
}
