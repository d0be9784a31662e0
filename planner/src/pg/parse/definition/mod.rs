//! Statements about what is stored that the SQL parser does not know, or not whole: their grammar is here.

pub(crate) mod absent;
pub(crate) mod alter;
pub(crate) mod comment;
pub(crate) mod domain;
mod extension;
pub(crate) mod function;
pub(crate) mod grant;
pub(crate) mod partition;
pub(crate) mod role;
pub(crate) mod sequence;
pub(crate) mod setting;
pub(crate) mod storage;
mod types;

pub(crate) use absent::DropAbsent;
pub(crate) use alter::{Action, Alter, AlterKind, ColumnChange, Triggers};
pub(crate) use comment::{Comment, Commented};
pub(crate) use domain::{CreateDomain, DomainAction};
pub(crate) use extension::ExtensionChange;
pub(crate) use function::{CreateFunction, FunctionChange, FunctionChanges};
pub(crate) use partition::PartitionChange;
pub(crate) use role::{RoleChange, RoleName, RoleOptions};
pub(crate) use sequence::SequenceOptions;
pub(crate) use setting::SettingChange;
pub(crate) use storage::StorageParameter;
pub(crate) use types::{AttributeChange, NewType, RangeOptions, TypeChange};

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use tenon_storage::TableLock;

/// LOCK TABLE.
#[derive(Clone, Debug)]
pub(crate) struct LockTable {
    pub names: Vec<ObjectName>,
    pub mode: TableLock,
    pub nowait: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Definition {
    CreateSequence {
        temporary: bool,
        if_not_exists: bool,
        name: ObjectName,
        options: SequenceOptions,
    },
    AlterSequence {
        if_exists: bool,
        name: ObjectName,
        options: SequenceOptions,
    },
    Alter(Alter),
    Comment(Comment),
    DropAbsent(Box<DropAbsent>),
    Do {
        language: String,
        body: String,
    },
    CreateFunction(Box<CreateFunction>),
    AlterFunction {
        /// `ALTER FUNCTION`
        tag: String,
        name: ObjectName,
        arguments: Option<Vec<String>>,
        change: FunctionChange,
    },
    RenameSchema(String, String),
    DropFunction {
        if_exists: bool,
        /// With the types of the arguments, where they are given.
        names: Vec<(ObjectName, Option<Vec<String>>)>,
        cascade: bool,
    },
    CreateDomain(Box<CreateDomain>),
    AlterDomain {
        name: ObjectName,
        action: DomainAction,
    },
    DropDomain {
        if_exists: bool,
        names: Vec<ObjectName>,
        cascade: bool,
    },
    CreateType {
        name: ObjectName,
        of: NewType,
    },
    AlterType {
        name: ObjectName,
        change: TypeChange,
    },
    DropType {
        if_exists: bool,
        names: Vec<ObjectName>,
        cascade: bool,
    },
    Refresh {
        name: ObjectName,
        with_data: bool,
    },
    Lock(LockTable),
    SetConstraints {
        /// None: ALL.
        names: Option<Vec<ObjectName>>,
        deferred: bool,
    },
    Role {
        /// `CREATE USER`
        tag: String,
        change: RoleChange,
    },
    Extension(ExtensionChange),
    Grant(Box<grant::Grant>),
    DefaultRights(Box<grant::DefaultRights>),
    OwnerTo {
        tag: String,
        of: grant::Owned,
        to: RoleName,
    },
    /// REASSIGN OWNED, or without another owner DROP OWNED.
    Owned {
        of: Vec<RoleName>,
        to: Option<RoleName>,
        cascade: bool,
    },
    /// 0A000, by the statement's first words.
    Refused(String),
}

/// Whether a statement with these first words is parsed here.
pub(crate) fn knows(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    if role::knows(words) || grant::knows(words) {
        return true;
    }
    match (word(0), word(1)) {
        ("CREATE", "SEQUENCE") | ("CREATE" | "ALTER" | "DROP", "TYPE") => true,
        ("CREATE" | "ALTER" | "DROP", "DOMAIN") | ("CREATE" | "DROP", "FUNCTION" | "PROCEDURE") => true,
        ("DO", _) | ("CREATE" | "ALTER" | "DROP", "EXTENSION") => true,
        ("CREATE", "OR") => matches!(word(3), "FUNCTION" | "PROCEDURE"),
        ("CREATE", "TEMP" | "TEMPORARY" | "UNLOGGED") => word(2) == "SEQUENCE",
        ("ALTER", "SEQUENCE" | "TABLE" | "VIEW" | "INDEX" | "MATERIALIZED") => true,
        ("COMMENT", "ON") | ("REFRESH", _) | ("LOCK", _) | ("SET", "CONSTRAINTS") => true,
        ("DROP", _) => absent::knows(words),
        _ => false,
    }
}

/// Parses a statement from its first word.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let first: Vec<String> = (0..3)
        .map(|at| parser.peek_nth_token(at).token.to_string().to_uppercase())
        .collect();
    if role::knows(&first) {
        return role::parse(parser);
    }
    if grant::knows(&first) {
        return grant::parse(parser);
    }
    for (words, or_replace, is_procedure) in [
        (["create", "function"].as_slice(), false, false),
        (&["create", "procedure"], false, true),
        (&["create", "or", "replace", "function"], true, false),
        (&["create", "or", "replace", "procedure"], true, true),
    ] {
        if take_words(parser, words) {
            return function::create(parser, or_replace, is_procedure);
        }
    }
    if is_word_at(parser, 1, "extension") {
        return extension::parse(parser);
    }
    if take_words(parser, &["do"]) {
        return function::anonymous(parser);
    }
    if super::definition::is_word(parser, "drop") && absent_next(parser) {
        parser.next_token();
        return absent::parse(parser);
    }
    if take_words(parser, &["drop", "function"]) || take_words(parser, &["drop", "procedure"]) {
        return function::drop(parser);
    }
    if take_words(parser, &["create", "type"]) {
        return types::create(parser);
    }
    if take_words(parser, &["alter", "type"]) {
        return types::alter(parser);
    }
    if take_words(parser, &["drop", "type"]) {
        return types::drop(parser);
    }
    if take_words(parser, &["create", "domain"]) {
        return domain::create(parser);
    }
    if take_words(parser, &["alter", "domain"]) {
        return domain::alter(parser);
    }
    if take_words(parser, &["drop", "domain"]) {
        return domain::drop(parser);
    }
    if parser.parse_keyword(Keyword::CREATE) {
        let temporary = parser
            .parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY])
            .is_some();
        let _ = parser.parse_keyword(Keyword::UNLOGGED);
        parser.expect_keyword_is(Keyword::SEQUENCE)?;
        let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        let options = sequence::options(parser)?;
        return Ok(Definition::CreateSequence {
            temporary,
            if_not_exists,
            name,
            options,
        });
    }
    if parser.parse_keyword(Keyword::ALTER) {
        return alter::parse(parser);
    }
    if parser.parse_keyword(Keyword::COMMENT) {
        return comment::parse(parser).map(Definition::Comment);
    }
    if parser.parse_keyword(Keyword::LOCK) {
        return lock(parser);
    }
    if take_words(parser, &["set", "constraints"]) {
        return set_constraints(parser);
    }
    parser.expect_keyword_is(Keyword::REFRESH)?;
    parser.expect_keywords(&[Keyword::MATERIALIZED, Keyword::VIEW])?;
    let _ = parser.parse_keyword(Keyword::CONCURRENTLY);
    let name = parser.parse_object_name(false)?;
    let with_data = !parser.parse_keywords(&[Keyword::WITH, Keyword::NO, Keyword::DATA]);
    let _ = parser.parse_keywords(&[Keyword::WITH, Keyword::DATA]);
    Ok(Definition::Refresh { name, with_data })
}

/// Whether DROP is of a kind that nobody has.
fn absent_next(parser: &Parser<'_>) -> bool {
    let words: Vec<String> = (0..4).map(|at| parser.peek_nth_token(at).token.to_string()).collect();
    absent::knows(&words)
}

/// `LOCK [TABLE] [ONLY] name [*], ... [IN mode MODE] [NOWAIT]`
fn lock(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let _ = parser.parse_keyword(Keyword::TABLE);
    let names = parser.parse_comma_separated(relation_name)?;
    let mut mode = TableLock::AccessExclusive;
    if parser.parse_keyword(Keyword::IN) {
        let modes: [(&[&str], TableLock); 8] = [
            (&["access", "share"], TableLock::AccessShare),
            (&["row", "share"], TableLock::RowShare),
            (&["row", "exclusive"], TableLock::RowExclusive),
            (&["share", "update", "exclusive"], TableLock::ShareUpdateExclusive),
            (&["share", "row", "exclusive"], TableLock::ShareRowExclusive),
            (&["share"], TableLock::Share),
            (&["exclusive"], TableLock::Exclusive),
            (&["access", "exclusive"], TableLock::AccessExclusive),
        ];
        let Some((_, named)) = modes.into_iter().find(|(words, _)| take_words(parser, words)) else {
            let next = parser.next_token();
            return parser.expected("a lock mode", next);
        };
        mode = named;
        if !is_word(parser, "mode") {
            let next = parser.next_token();
            return parser.expected("MODE", next);
        }
        parser.next_token();
    }
    let nowait = parser.parse_keyword(Keyword::NOWAIT);
    Ok(Definition::Lock(LockTable { names, mode, nowait }))
}

/// `[ONLY] name [*]`
fn relation_name(parser: &mut Parser<'_>) -> Result<ObjectName, ParserError> {
    use datafusion::sql::sqlparser::tokenizer::Token;
    let _ = parser.parse_keyword(Keyword::ONLY);
    let name = parser.parse_object_name(false)?;
    let _ = parser.consume_token(&Token::Mul);
    Ok(name)
}

/// Whether the next token is this word, unquoted.
pub(super) fn is_word(parser: &Parser<'_>, word: &str) -> bool {
    is_word_at(parser, 0, word)
}

pub(super) fn is_word_at(parser: &Parser<'_>, at: usize, word: &str) -> bool {
    use datafusion::sql::sqlparser::tokenizer::Token;
    matches!(&parser.peek_nth_token(at).token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word))
}

/// Takes the words if they come next.
pub(crate) fn take_words(parser: &mut Parser<'_>, words: &[&str]) -> bool {
    let all = words.iter().enumerate().all(|(at, word)| is_word_at(parser, at, word));
    if all {
        words.iter().for_each(|_| {
            parser.next_token();
        });
    }
    all
}

/// `{ ALL | name [, ...] } { DEFERRED | IMMEDIATE }`
fn set_constraints(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let names = match take_words(parser, &["all"]) {
        true => None,
        false => Some(parser.parse_comma_separated(|parser| parser.parse_object_name(false))?),
    };
    let deferred = take_words(parser, &["deferred"]);
    if !deferred && !take_words(parser, &["immediate"]) {
        let next = parser.peek_token();
        return parser.expected("DEFERRED or IMMEDIATE", next);
    }
    Ok(Definition::SetConstraints { names, deferred })
}
