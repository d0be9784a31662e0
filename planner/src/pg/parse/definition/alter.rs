//! ALTER TABLE, VIEW, MATERIALIZED VIEW, INDEX and SEQUENCE: a list of actions.

use super::sequence::{self, SequenceOptions};
use super::{Definition, PartitionChange, relation_name, take_words};
use datafusion::sql::sqlparser::ast::{AlterTableOperation, DataType, Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct Alter {
    pub kind: AlterKind,
    pub if_exists: bool,
    /// ONLY the table, not its partitions.
    pub only: bool,
    pub name: ObjectName,
    pub actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlterKind {
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
}

impl AlterKind {
    pub(crate) fn tag(self) -> &'static str {
        match self {
            AlterKind::Table => "ALTER TABLE",
            AlterKind::View => "ALTER VIEW",
            AlterKind::MaterializedView => "ALTER MATERIALIZED VIEW",
            AlterKind::Index => "ALTER INDEX",
            AlterKind::Sequence => "ALTER SEQUENCE",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// One that the parser knows.
    Known(Box<AlterTableOperation>),
    Column(Ident, ColumnChange),
    SetSchema(Ident),
    Partition(PartitionChange),
    /// SET or RESET of a view's check_option.
    CheckOption(Option<String>),
    /// SET or (false) RESET of storage parameters.
    Parameters {
        is_set: bool,
        parameters: Vec<super::StorageParameter>,
    },
    OwnerTo(super::RoleName),
    /// ENABLE or (false) DISABLE of triggers.
    Triggers(bool, Triggers),
    /// ENABLE or DISABLE of a rule.
    Rule(Ident),
    /// Accepted: it changes how PostgreSQL stores or guards rows, not what they are.
    Nothing,
    Unsupported(String),
}

#[derive(Clone, Debug)]
pub(crate) enum Triggers {
    All,
    /// All but those of foreign keys.
    User,
    Named(Ident),
}

#[derive(Clone, Debug)]
pub(crate) enum ColumnChange {
    Type {
        data_type: Box<DataType>,
        collation: Option<ObjectName>,
        using: Option<Box<Expr>>,
    },
    AddIdentity {
        always: bool,
        options: Box<SequenceOptions>,
    },
    /// SET GENERATED, and SET before options of the sequence.
    Identity {
        always: Option<bool>,
        options: Box<SequenceOptions>,
    },
    DropIdentity {
        if_exists: bool,
    },
    DropExpression {
        if_exists: bool,
    },
    /// Statistics targets, storage, options.
    Nothing,
}

/// Parses from the word after ALTER.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let kind = if take_words(parser, &["materialized", "view"]) {
        AlterKind::MaterializedView
    } else {
        match parser.expect_one_of_keywords(&[Keyword::TABLE, Keyword::VIEW, Keyword::INDEX, Keyword::SEQUENCE])? {
            Keyword::VIEW => AlterKind::View,
            Keyword::INDEX => AlterKind::Index,
            Keyword::SEQUENCE => AlterKind::Sequence,
            _ => AlterKind::Table,
        }
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let only = super::is_word(parser, "only");
    let name = relation_name(parser)?;
    if kind == AlterKind::Sequence
        && !["rename", "set", "owner"]
            .iter()
            .any(|word| super::is_word(parser, word))
    {
        let options = sequence::options(parser)?;
        return Ok(Definition::AlterSequence {
            if_exists,
            name,
            options,
        });
    }
    let actions = parser.parse_comma_separated(action)?;
    Ok(Definition::Alter(Alter {
        kind,
        if_exists,
        only,
        name,
        actions,
    }))
}

fn action(parser: &mut Parser<'_>) -> Result<Action, ParserError> {
    if take_words(parser, &["set", "schema"]) {
        return parser.parse_identifier().map(Action::SetSchema);
    }
    if take_words(parser, &["owner", "to"]) {
        return super::role::name(parser).map(Action::OwnerTo);
    }
    if let Some(change) = switch(parser)? {
        return Ok(change);
    }
    let harmless: [&[&str]; 7] = [
        &["cluster", "on"],
        &["set", "without", "cluster"],
        &["set", "without", "oids"],
        &["set", "logged"],
        &["set", "unlogged"],
        &["set", "tablespace"],
        &["set", "access", "method"],
    ];
    for words in harmless {
        if take_words(parser, words) {
            skip_action(parser);
            return Ok(Action::Nothing);
        }
    }
    if (super::is_word(parser, "set") || super::is_word(parser, "reset"))
        && parser.peek_nth_token(1).token == Token::LParen
        && super::is_word_at(parser, 2, "check_option")
    {
        let value = match parser.peek_nth_token(3).token {
            Token::Eq => Some(
                parser
                    .peek_nth_token(4)
                    .token
                    .to_string()
                    .trim_matches('\'')
                    .to_lowercase(),
            ),
            _ => None,
        };
        skip_action(parser);
        return Ok(Action::CheckOption(value));
    }
    if (super::is_word(parser, "set") || super::is_word(parser, "reset"))
        && parser.peek_nth_token(1).token == Token::LParen
    {
        return super::storage::action(parser);
    }
    if let Some(change) = super::partition::action(parser)? {
        return Ok(change);
    }
    let refused: [(&[&str], &str); 8] = [
        (&["inherit"], "INHERIT"),
        (&["no", "inherit"], "NO INHERIT"),
        (&["enable"], "ENABLE"),
        (&["disable"], "DISABLE"),
        (&["force"], "FORCE ROW LEVEL SECURITY"),
        (&["no", "force"], "NO FORCE ROW LEVEL SECURITY"),
        (&["of"], "OF type"),
        (&["alter", "constraint"], "ALTER CONSTRAINT"),
    ];
    for (words, what) in refused {
        if take_words(parser, words) {
            skip_action(parser);
            return Ok(Action::Unsupported(what.into()));
        }
    }
    if super::is_word(parser, "alter")
        && let Some(change) = column_action(parser)?
    {
        return Ok(change);
    }
    parser
        .parse_alter_table_operation()
        .map(|known| Action::Known(Box::new(known)))
}

/// `{ENABLE [REPLICA | ALWAYS] | DISABLE} {TRIGGER {ALL | USER | name} | RULE name}`, and what takes row security away, of which
/// there is none.
fn switch(parser: &mut Parser<'_>) -> Result<Option<Action>, ParserError> {
    let off = take_words(parser, &["disable", "row", "level", "security"])
        || take_words(parser, &["no", "force", "row", "level", "security"]);
    if off {
        return Ok(Some(Action::Nothing));
    }
    let on = super::is_word(parser, "enable");
    let by = usize::from(on && (super::is_word_at(parser, 1, "replica") || super::is_word_at(parser, 1, "always")));
    let is_rule = super::is_word_at(parser, 1 + by, "rule");
    if !on && !super::is_word(parser, "disable") || !is_rule && !super::is_word_at(parser, 1 + by, "trigger") {
        return Ok(None);
    }
    (0..2 + by).for_each(|_| {
        parser.next_token();
    });
    if is_rule {
        return parser.parse_identifier().map(|name| Some(Action::Rule(name)));
    }
    let which = match by {
        0 if take_words(parser, &["all"]) => Triggers::All,
        0 if take_words(parser, &["user"]) => Triggers::User,
        _ => Triggers::Named(parser.parse_identifier()?),
    };
    Ok(Some(Action::Triggers(on, which)))
}

/// Takes the tokens up to the next action.
fn skip_action(parser: &mut Parser<'_>) {
    let mut depth = 0;
    loop {
        match parser.peek_token().token {
            Token::EOF => return,
            Token::Comma if depth == 0 => return,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        parser.next_token();
    }
}

/// `ALTER [COLUMN] name ...`; None leaves it to the parser, with nothing taken.
fn column_action(parser: &mut Parser<'_>) -> Result<Option<Action>, ParserError> {
    let with_word = super::is_word_at(parser, 1, "column");
    let name_at = if with_word { 2 } else { 1 };
    let says = |words: &[&str]| {
        words
            .iter()
            .enumerate()
            .all(|(at, word)| super::is_word_at(parser, name_at + 1 + at, word))
    };
    let own = says(&["type"])
        || says(&["set", "data", "type"])
        || says(&["add", "generated"])
        || says(&["drop", "identity"])
        || says(&["drop", "expression"])
        || says(&["restart"])
        || says(&["reset"])
        || (says(&["set"]) && !says(&["set", "not"]) && !says(&["set", "default"]));
    if !own {
        return Ok(None);
    }
    for _ in 0..name_at {
        parser.next_token();
    }
    let column = parser.parse_identifier()?;
    let change = if take_words(parser, &["type"]) || take_words(parser, &["set", "data", "type"]) {
        let data_type = Box::new(parser.parse_data_type()?);
        let collation = match take_words(parser, &["collate"]) {
            true => Some(parser.parse_object_name(false)?),
            false => None,
        };
        let using = match take_words(parser, &["using"]) {
            true => Some(Box::new(parser.parse_expr()?)),
            false => None,
        };
        ColumnChange::Type {
            data_type,
            collation,
            using,
        }
    } else if take_words(parser, &["add", "generated"]) {
        let always = generated(parser)?;
        parser.expect_keyword_is(Keyword::AS)?;
        if !take_words(parser, &["identity"]) {
            let next = parser.peek_token();
            return parser.expected("IDENTITY", next);
        }
        let mut options = SequenceOptions::default();
        if parser.consume_token(&Token::LParen) {
            options = sequence::options(parser)?;
            parser.expect_token(&Token::RParen)?;
        }
        ColumnChange::AddIdentity {
            always,
            options: Box::new(options),
        }
    } else if take_words(parser, &["drop", "identity"]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        ColumnChange::DropIdentity { if_exists }
    } else if take_words(parser, &["drop", "expression"]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        ColumnChange::DropExpression { if_exists }
    } else if super::is_word(parser, "restart") || super::is_word_at(parser, 1, "generated") || is_option(parser) {
        identity(parser)?
    } else {
        skip_action(parser);
        ColumnChange::Nothing
    };
    Ok(Some(Action::Column(column, change)))
}

fn is_option(parser: &Parser<'_>) -> bool {
    [
        "increment",
        "minvalue",
        "maxvalue",
        "no",
        "start",
        "restart",
        "cache",
        "cycle",
    ]
    .iter()
    .any(|word| super::is_word_at(parser, 1, word))
}

/// `{ SET GENERATED ... | SET option | RESTART [WITH n] } ...`
fn identity(parser: &mut Parser<'_>) -> Result<ColumnChange, ParserError> {
    let mut always = None;
    let mut all = SequenceOptions::default();
    loop {
        if take_words(parser, &["set", "generated"]) {
            always = Some(generated(parser)?);
            continue;
        }
        if !take_words(parser, &["set"]) && !super::is_word(parser, "restart") {
            return Ok(ColumnChange::Identity {
                always,
                options: Box::new(all),
            });
        }
        let one = sequence::options(parser)?;
        all.increment = one.increment.or(all.increment);
        all.min = one.min.or(all.min);
        all.max = one.max.or(all.max);
        all.start = one.start.or(all.start);
        all.restart = one.restart.or(all.restart);
        all.cache = one.cache.or(all.cache);
        all.cycle = one.cycle.or(all.cycle);
    }
}

/// `ALWAYS` or `BY DEFAULT`
fn generated(parser: &mut Parser<'_>) -> Result<bool, ParserError> {
    if take_words(parser, &["always"]) {
        return Ok(true);
    }
    if take_words(parser, &["by", "default"]) {
        return Ok(false);
    }
    let next = parser.peek_token();
    parser.expected("ALWAYS or BY DEFAULT", next)
}
