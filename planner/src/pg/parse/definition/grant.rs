//! GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, OWNER TO, REASSIGN OWNED and DROP OWNED.

use super::function::signature;
use super::role::{self, RoleName};
use super::{Definition, is_word, is_word_at, setting, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use tenon_storage::{Secured, privilege};

/// GRANT or REVOKE.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub revokes: bool,
    /// REVOKE ... OPTION FOR takes only this; GRANT ... WITH ... OPTION gives it, too.
    pub option: bool,
    pub cascade: bool,
    pub grantor: Option<RoleName>,
    pub grantees: Vec<RoleName>,
    pub what: Granted,
}

#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// Membership in roles.
    Roles(Vec<RoleName>),
    Rights {
        rights: Vec<Right>,
        on: On,
    },
}

/// A right as it is written, and the columns that it is on.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    /// None: ALL.
    pub right: Option<u32>,
    /// As it was written.
    pub name: String,
    pub columns: Vec<String>,
}

/// What rights are on.
#[derive(Clone, Debug)]
pub(crate) enum On {
    Relations(Vec<ObjectName>),
    Sequences(Vec<ObjectName>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    Types(Vec<ObjectName>),
    Domains(Vec<ObjectName>),
    /// With the types of the arguments, where they are given.
    Functions(Vec<(ObjectName, Option<Vec<String>>)>),
    AllIn(Secured, Vec<String>),
    /// Objects that do not exist here: languages, foreign servers.
    Other(String),
}

/// ALTER DEFAULT PRIVILEGES.
#[derive(Clone, Debug)]
pub(crate) struct DefaultRights {
    /// Empty: the current role.
    pub of: Vec<RoleName>,
    pub schemas: Vec<String>,
    pub revokes: bool,
    pub option: bool,
    pub rights: Vec<Right>,
    pub kind: Secured,
    pub grantees: Vec<RoleName>,
}

/// What has an owner and no ALTER of its own.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Schema(String),
    Database(String),
    Function(ObjectName, Option<Vec<String>>),
    Type(ObjectName),
}

/// Whether a statement with these first words is one of these.
pub(super) fn knows(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match (word(0), word(1)) {
        ("GRANT" | "REVOKE", _) | ("REASSIGN" | "DROP", "OWNED") => true,
        ("ALTER", "DEFAULT") => word(2) == "PRIVILEGES",
        ("ALTER", "SCHEMA" | "DATABASE" | "FUNCTION" | "PROCEDURE" | "ROUTINE") => true,
        _ => false,
    }
}

/// From the first word.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    if take_words(parser, &["grant"]) {
        return grant(parser);
    }
    if take_words(parser, &["revoke"]) {
        return revoke(parser);
    }
    if take_words(parser, &["alter", "default", "privileges"]) {
        return default_rights(parser);
    }
    if take_words(parser, &["reassign", "owned", "by"]) {
        let of = parser.parse_comma_separated(role::name)?;
        parser.expect_keyword_is(Keyword::TO)?;
        let to = Some(role::name(parser)?);
        return Ok(Definition::Owned { of, to, cascade: false });
    }
    if take_words(parser, &["drop", "owned", "by"]) {
        let of = parser.parse_comma_separated(role::name)?;
        let cascade = cascade(parser);
        return Ok(Definition::Owned { of, to: None, cascade });
    }
    parser.next_token();
    alter(parser)
}

/// ALTER of a schema, a database or a function: OWNER TO and RENAME TO.
fn alter(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let kind = parser.next_token().token.to_string().to_uppercase();
    let of = match kind.as_str() {
        "SCHEMA" => Owned::Schema(fold(&parser.parse_identifier()?)),
        "DATABASE" => Owned::Database(fold(&parser.parse_identifier()?)),
        _ => {
            let (name, arguments) = signature(parser)?;
            Owned::Function(name, arguments)
        }
    };
    let tag = format!("ALTER {kind}");
    if take_words(parser, &["owner", "to"]) {
        let to = role::name(parser)?;
        return Ok(Definition::OwnerTo { tag, of, to });
    }
    if let Owned::Database(name) = &of
        && (is_word(parser, "set") && !is_word_at(parser, 1, "tablespace") || is_word(parser, "reset"))
    {
        let change = setting::of_database(parser, name.clone())?;
        return Ok(Definition::Role { tag, change });
    }
    match of {
        Owned::Schema(from) if take_words(parser, &["rename", "to"]) => {
            return Ok(Definition::RenameSchema(from, fold(&parser.parse_identifier()?)));
        }
        Owned::Function(name, arguments) => {
            if let Some(change) = super::function::alter(parser)? {
                return Ok(Definition::AlterFunction {
                    tag,
                    name,
                    arguments,
                    change,
                });
            }
        }
        _ => {}
    }
    while parser.peek_token().token != Token::EOF {
        parser.next_token();
    }
    Ok(Definition::Refused(tag))
}

fn cascade(parser: &mut Parser<'_>) -> bool {
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let _ = parser.parse_keyword(Keyword::RESTRICT);
    cascade
}

fn grantees(parser: &mut Parser<'_>) -> Result<Vec<RoleName>, ParserError> {
    parser.parse_comma_separated(|parser| {
        let _ = take_words(parser, &["group"]);
        role::name(parser)
    })
}

fn granted_by(parser: &mut Parser<'_>) -> Result<Option<RoleName>, ParserError> {
    match take_words(parser, &["granted", "by"]) {
        true => role::name(parser).map(Some),
        false => Ok(None),
    }
}

fn grant(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let rights = parser.parse_comma_separated(right)?;
    if parser.parse_keyword(Keyword::ON) {
        let on = on(parser)?;
        parser.expect_keyword_is(Keyword::TO)?;
        let grantees = grantees(parser)?;
        let option = take_words(parser, &["with", "grant", "option"]);
        let what = Granted::Rights { rights, on };
        let grantor = granted_by(parser)?;
        return Ok(grant_of(false, option, false, grantor, grantees, what));
    }
    parser.expect_keyword_is(Keyword::TO)?;
    let grantees = grantees(parser)?;
    let option = take_words(parser, &["with", "admin", "option"]);
    let grantor = granted_by(parser)?;
    Ok(grant_of(false, option, false, grantor, grantees, roles(rights)))
}

fn revoke(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let option = take_words(parser, &["grant", "option", "for"]) || take_words(parser, &["admin", "option", "for"]);
    let rights = parser.parse_comma_separated(right)?;
    let what = match parser.parse_keyword(Keyword::ON) {
        true => Granted::Rights {
            on: on(parser)?,
            rights,
        },
        false => roles(rights),
    };
    parser.expect_keyword_is(Keyword::FROM)?;
    let grantees = grantees(parser)?;
    let grantor = granted_by(parser)?;
    let cascade = cascade(parser);
    Ok(grant_of(true, option, cascade, grantor, grantees, what))
}

fn grant_of(
    revokes: bool,
    option: bool,
    cascade: bool,
    grantor: Option<RoleName>,
    grantees: Vec<RoleName>,
    what: Granted,
) -> Definition {
    Definition::Grant(Box::new(Grant {
        revokes,
        option,
        cascade,
        grantor,
        grantees,
        what,
    }))
}

/// What was read as rights are names of roles.
fn roles(rights: Vec<Right>) -> Granted {
    let name = |right: Right| match right.name.as_str() {
        "public" => RoleName::Public,
        "current_user" | "current_role" => RoleName::Current,
        "session_user" => RoleName::Session,
        _ => RoleName::Named(right.name),
    };
    Granted::Roles(rights.into_iter().map(name).collect())
}

fn right(parser: &mut Parser<'_>) -> Result<Right, ParserError> {
    let all = take_words(parser, &["all", "privileges"]) || take_words(parser, &["all"]);
    let name = match all {
        true => "all".to_string(),
        false => fold(&parser.parse_identifier()?),
    };
    let columns = match parser.consume_token(&Token::LParen) {
        true => {
            let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
            columns.iter().map(fold).collect()
        }
        false => Vec::new(),
    };
    let right = match all {
        true => None,
        // 0: there is none of this name, and it may be a role.
        false => Some(right_named(&name).unwrap_or(0)),
    };
    Ok(Right { right, name, columns })
}

/// A right by its name.
pub(crate) fn right_named(name: &str) -> Option<u32> {
    if name.eq_ignore_ascii_case("temp") {
        return Some(privilege::TEMPORARY);
    }
    let mut known = privilege::ALL.iter();
    known
        .find(|(.., own)| own.eq_ignore_ascii_case(name))
        .map(|(right, ..)| *right)
}

fn on(parser: &mut Parser<'_>) -> Result<On, ParserError> {
    if take_words(parser, &["all"]) {
        let kind = kind_of_all(parser)?;
        parser.expect_keyword_is(Keyword::IN)?;
        parser.expect_keyword_is(Keyword::SCHEMA)?;
        let schemas = parser.parse_comma_separated(Parser::parse_identifier)?;
        return Ok(On::AllIn(kind, schemas.iter().map(fold).collect()));
    }
    let words = |parser: &mut Parser<'_>| -> Result<Vec<String>, ParserError> {
        let names = parser.parse_comma_separated(Parser::parse_identifier)?;
        Ok(names.iter().map(fold).collect())
    };
    let names = |parser: &mut Parser<'_>| parser.parse_comma_separated(|parser| parser.parse_object_name(false));
    // A table may be called as one of these kinds is.
    let kinded = !matches!(
        parser.peek_nth_token(1).token,
        Token::Comma | Token::Period | Token::EOF
    ) && !super::is_word_at(parser, 1, "to")
        && !super::is_word_at(parser, 1, "from");
    if kinded {
        for other in ["language", "tablespace", "parameter"] {
            if take_words(parser, &[other]) {
                words(parser)?;
                return Ok(On::Other(other.to_uppercase()));
            }
        }
        if take_words(parser, &["foreign", "server"]) || take_words(parser, &["foreign", "data", "wrapper"]) {
            words(parser)?;
            return Ok(On::Other("FOREIGN".into()));
        }
        if take_words(parser, &["sequence"]) {
            return Ok(On::Sequences(names(parser)?));
        }
        if take_words(parser, &["schema"]) {
            return Ok(On::Schemas(words(parser)?));
        }
        if take_words(parser, &["database"]) {
            return Ok(On::Databases(words(parser)?));
        }
        if take_words(parser, &["type"]) {
            return Ok(On::Types(names(parser)?));
        }
        if take_words(parser, &["domain"]) {
            return Ok(On::Domains(names(parser)?));
        }
        if ["function", "procedure", "routine"]
            .iter()
            .any(|word| take_words(parser, &[word]))
        {
            return Ok(On::Functions(parser.parse_comma_separated(signature)?));
        }
        let _ = take_words(parser, &["table"]);
    }
    Ok(On::Relations(names(parser)?))
}

fn kind_of_all(parser: &mut Parser<'_>) -> Result<Secured, ParserError> {
    for (word, kind) in [
        ("tables", Secured::Table),
        ("sequences", Secured::Sequence),
        ("functions", Secured::Function),
        ("procedures", Secured::Function),
        ("routines", Secured::Function),
        ("types", Secured::Type),
        ("schemas", Secured::Schema),
    ] {
        if take_words(parser, &[word]) {
            return Ok(kind);
        }
    }
    let next = parser.peek_token();
    parser.expected("TABLES, SEQUENCES or FUNCTIONS", next)
}

fn default_rights(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let (mut of, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if take_words(parser, &["for", "role"]) || take_words(parser, &["for", "user"]) {
            of = parser.parse_comma_separated(role::name)?;
        } else if take_words(parser, &["in", "schema"]) {
            let names = parser.parse_comma_separated(Parser::parse_identifier)?;
            schemas = names.iter().map(fold).collect();
        } else {
            break;
        }
    }
    let revokes = !take_words(parser, &["grant"]);
    if revokes && !take_words(parser, &["revoke"]) {
        let next = parser.peek_token();
        return parser.expected("GRANT or REVOKE", next);
    }
    let mut option = revokes && take_words(parser, &["grant", "option", "for"]);
    let rights = parser.parse_comma_separated(right)?;
    parser.expect_keyword_is(Keyword::ON)?;
    let kind = kind_of_all(parser)?;
    parser.expect_keyword_is(if revokes { Keyword::FROM } else { Keyword::TO })?;
    let grantees = grantees(parser)?;
    if !revokes {
        option = take_words(parser, &["with", "grant", "option"]);
    } else if is_word(parser, "cascade") || is_word(parser, "restrict") {
        parser.next_token();
    }
    Ok(Definition::DefaultRights(Box::new(DefaultRights {
        of,
        schemas,
        revokes,
        option,
        rights,
        kind,
        grantees,
    })))
}
