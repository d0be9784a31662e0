//! SQL text to statements: one token pass, cut at the semicolons, each piece parsed on its own.
//!
//! More than 400 lines because it is one pass over a statement's tokens, whose steps depend on their order.

pub(crate) mod analyze;
pub(crate) mod copy;
pub(crate) mod cursor;
pub(crate) mod definition;
pub(crate) mod from;
pub(crate) mod identity;
pub(crate) mod inference;
pub(crate) mod like;
mod logic;
pub(crate) mod overriding;
mod search_cycle;
pub(crate) mod select;
mod subscripts;
mod table;
pub(crate) mod width;

use crate::pg::collations;
use crate::pg::dialect::TenonDialect;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::lex;
use crate::pg::statement::{Kind, Statement, Utility};
use crate::pg::tokens;
use crate::pg::walk::{Visit, VisitMut};
use datafusion::sql::sqlparser::ast::{self, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How deep the parser's calls may nest. What nests too deep is refused before, see `lex::depth`.
const NESTING_MAX: usize = 1_000;

/// How the parser's tree says WITH NO DATA, for which it has no word: by one that PostgreSQL has no use for.
pub(crate) const NO_DATA: bool = true;

static DIALECT: TenonDialect = TenonDialect;

/// Parses a query string. Any syntax error refuses the whole string, as in PostgreSQL.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    parse_as(sql, true)
}

/// The same, with strings that conform to the standard or have backslash escapes.
pub fn parse_as(sql: &str, conforming: bool) -> Result<Vec<Statement>> {
    let text: Arc<str> = sql.into();
    let mut tokens = lex::tokenize(sql, conforming)?;
    let mut statements = Vec::new();
    while !tokens.is_empty() {
        let end = end_of_statement(&tokens);
        let rest = end.map_or_else(Vec::new, |at| tokens.split_off(at + 1));
        let mut piece = std::mem::replace(&mut tokens, rest);
        if end.is_some() {
            piece.pop();
        }
        if piece
            .iter()
            .all(|token| matches!(token.token, Token::Whitespace(_) | Token::EOF))
        {
            continue;
        }
        statements.push(parse_piece(&text, piece)?);
    }
    Ok(statements)
}

/// The semicolon that ends the first statement: one inside BEGIN ATOMIC ... END ends none.
fn end_of_statement(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut atomic = false;
    let mut cases = 0;
    let mut before = Keyword::NoKeyword;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::SemiColon if !atomic => return Some(at),
            Token::Whitespace(_) => {}
            Token::Word(word) => {
                match word.keyword {
                    Keyword::CASE => cases += 1,
                    Keyword::END if cases > 0 => cases -= 1,
                    Keyword::END => atomic = false,
                    _ if before == Keyword::BEGIN && word.value.eq_ignore_ascii_case("atomic") => {
                        atomic = true;
                        cases = 0;
                    }
                    _ => {}
                }
                before = word.keyword;
            }
            _ => before = Keyword::NoKeyword,
        }
    }
    None
}

fn parse_piece(text: &Arc<str>, tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let solid = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let first = tokens
        .iter()
        .find(solid)
        .map_or(Location { line: 1, column: 1 }, |token| token.span.start);
    let last = tokens.iter().rev().find(solid).map(|token| token.span.end);
    let start = byte_offset(text, first);
    let end = last
        .map_or(text.len(), |location| byte_offset(text, location))
        .max(start);
    let words: Vec<String> = tokens
        .iter()
        .filter(solid)
        .take(4)
        .map(|token| token.to_string().to_uppercase())
        .collect();
    let may_lock = locks(tokens.iter().filter(solid));
    let mut tokens = tokens;
    if words.starts_with(&["CREATE".into(), "SCHEMA".into()])
        && let Some(pieces) = from::schema_elements(&tokens)
    {
        let mut pieces = pieces.into_iter().map(|piece| parse_piece(text, piece));
        let head = pieces.next().transpose()?;
        if let Some(Kind::Sql(create)) = head.map(|head| head.kind) {
            let elements = pieces.collect::<Result<Vec<_>>>()?;
            return Ok(Statement {
                text: text.clone(),
                start,
                end,
                kind: Kind::Schema(create, elements),
                may_lock: false,
            });
        }
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error"));
    }
    drop_unlogged(&mut tokens, &words);
    let deferrable = transaction_words(&mut tokens, &words);
    let on_commit = take_on_commit(&mut tokens, &words);
    let is_table = words.first().is_some_and(|first| first == "CREATE") && words.iter().any(|word| word == "TABLE");
    let is_materialized = words.starts_with(&["CREATE".into(), "MATERIALIZED".into()]);
    if is_table || is_materialized {
        table::access_method(&mut tokens)?;
    }
    let partitions = match is_table {
        true => {
            let taken = definition::partition::take(&mut tokens);
            Some(taken.map_err(|error| syntax_error(text, &tokens, error))?)
        }
        false => None,
    };
    mark_symmetric(&mut tokens);
    mark_all_columns(&mut tokens);
    tokens::repair(&mut tokens);
    from::mark_rows_from(&mut tokens);
    from::name_definitions(&mut tokens);
    from::mark_repeatable(&mut tokens);
    let overriding = match words.first().map(String::as_str) {
        Some("INSERT" | "WITH") => overriding::take(&mut tokens),
        _ => None,
    };
    inference::mark(&mut tokens).map_err(|error| syntax_error(text, &tokens, error))?;
    from::spell_out_table(&mut tokens);
    table::type_names_of_a_query(&mut tokens);
    subscripts::assignments(&mut tokens);
    subscripts::variadic(&mut tokens);
    subscripts::named_operators(&mut tokens);
    let clauses = search_cycle::take(&mut tokens).map_err(|error| syntax_error(text, &tokens, error))?;
    if matches!(words.first().map(String::as_str), Some("CREATE" | "ALTER")) {
        identity::order_options(&mut tokens);
        like::mark(&mut tokens);
    }
    let kind = match utility(&words) {
        Some(utility) => Kind::Utility(utility),
        None if is_table && table::names_type_of_table(&tokens) => {
            Kind::Utility(Utility::Unsupported("CREATE TABLE OF a type"))
        }
        None => {
            let mut parser = Parser::new(&DIALECT)
                .with_recursion_limit(NESTING_MAX)
                .with_tokens_with_locations(tokens.clone());
            let parsed = match words.first().map(String::as_str) {
                Some("COPY") => copy::parse(&mut parser).map(|copy| Kind::Copy(Box::new(copy))),
                Some("ANALYZE" | "VACUUM") => {
                    analyze::parse(&mut parser).map(|analyze| Kind::Analyze(Box::new(analyze)))
                }
                Some("FETCH" | "MOVE") => cursor::parse(&mut parser).map(|fetch| Kind::Fetch(Box::new(fetch))),
                _ if definition::knows(&words) => {
                    definition::parse(&mut parser).map(|definition| Kind::Definition(Box::new(definition)))
                }
                _ => parser.parse_statement().map(|mut statement| {
                    let _ = VisitMut::visit(&mut statement, &mut logic::Halved);
                    Kind::Sql(Box::new(unnested(statement)))
                }),
            };
            let mut parsed = parsed.map_err(|error| syntax_error(text, &tokens, error))?;
            if names(&tokens, "collate") {
                collations::check(&tokens, |token| position(text, token.span.start))?;
            }
            if let Kind::Sql(tree) = &mut parsed {
                tokens::only::note(tree.as_mut());
                if let ast::Statement::CreateIndex(create) = tree.as_mut() {
                    tokens::only::note_index(create);
                }
                search_cycle::expand(tree, &clauses)?;
                from::select_into(tree)?;
            }
            if let (Kind::Sql(tree), Some(deferrable)) = (&mut parsed, deferrable)
                && let ast::Statement::StartTransaction { modifier, .. } = tree.as_mut()
            {
                // A place that PostgreSQL's BEGIN has no other use for.
                *modifier = Some(match deferrable {
                    true => ast::TransactionModifier::Deferred,
                    false => ast::TransactionModifier::Immediate,
                });
            }
            if let (Kind::Sql(tree), Some(on_commit)) = (&mut parsed, on_commit)
                && let ast::Statement::CreateTable(create) = tree.as_mut()
            {
                create.on_commit = Some(on_commit);
            }
            if let (Kind::Sql(tree), Some(partitions)) = (&mut parsed, partitions)
                && let ast::Statement::CreateTable(create) = tree.as_mut()
            {
                partitions.note(create);
            }
            if let (Kind::Sql(tree), Some(overriding)) = (&mut parsed, overriding) {
                overriding::note(tree, overriding);
            }
            if let Kind::Sql(tree) = &parsed
                && let ControlFlow::Break(at) = tree.visit(&mut Reserved)
            {
                return Err(near(text, &tokens, at));
            }
            if let Kind::Sql(tree) = &parsed {
                width::check(tree, end - start)?;
            }
            if parser.peek_keyword(Keyword::WITH) {
                with_data(&mut parser, &mut parsed);
            }
            let next = parser.peek_token();
            if next.token != Token::EOF {
                return Err(near(text, &tokens, next.span.start));
            }
            parsed
        }
    };
    Ok(Statement {
        text: text.clone(),
        start,
        end,
        kind,
        may_lock,
    })
}

/// Whether FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE or FOR KEY SHARE is among the words.
fn locks<'a>(tokens: impl Iterator<Item = &'a TokenWithSpan>) -> bool {
    let mut after_for = false;
    for token in tokens {
        if after_for && ["update", "no", "share", "key"].iter().any(|word| is_word(token, word)) {
            return true;
        }
        after_for = is_word(token, "for");
    }
    false
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word))
}

/// ABORT is ROLLBACK. [NOT] DEFERRABLE, which changes nothing where no transaction waits for another, is taken out.
fn transaction_words(tokens: &mut Vec<TokenWithSpan>, words: &[String]) -> Option<bool> {
    match words.first().map(String::as_str) {
        Some("ABORT") => {
            for token in tokens.iter_mut().filter(|token| is_word(token, "abort")) {
                token.token = Token::make_keyword("ROLLBACK");
            }
        }
        Some("BEGIN" | "START") => {}
        Some("SET")
            if words
                .iter()
                .any(|word| word == "TRANSACTION" || word == "CHARACTERISTICS") => {}
        _ => return None,
    }
    let mut deferrable = None;
    while let Some(at) = tokens.iter().position(|token| is_word(token, "deferrable")) {
        let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        let mut first = at;
        let before = |at: usize| (0..at).rev().find(|before| !is_space(&tokens[*before]));
        if let Some(not) = before(first).filter(|not| is_word(&tokens[*not], "not")) {
            first = not;
        }
        deferrable = Some(first == at);
        let mut last = at;
        match before(first) {
            Some(comma) if tokens[comma].token == Token::Comma => first = comma,
            _ => {
                let after = (at + 1..tokens.len()).find(|after| !is_space(&tokens[*after]));
                if let Some(comma) = after.filter(|after| tokens[*after].token == Token::Comma) {
                    last = comma;
                }
            }
        }
        tokens.drain(first..=last);
    }
    deferrable
}

/// `CREATE TABLE ... ON COMMIT ... AS query`: the parser knows the clause only in statements without AS.
fn take_on_commit(tokens: &mut Vec<TokenWithSpan>, words: &[String]) -> Option<ast::OnCommit> {
    if words.first().is_none_or(|first| first != "CREATE") || !words.iter().any(|word| word == "TABLE") {
        return None;
    }
    let is_solid = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let solid: Vec<usize> = (0..tokens.len()).filter(is_solid).collect();
    let says = |from: usize, wanted: &[&str]| {
        wanted
            .iter()
            .enumerate()
            .all(|(at, word)| solid.get(from + at).is_some_and(|place| is_word(&tokens[*place], word)))
    };
    let clauses = [
        (["on", "commit", "drop"].as_slice(), ast::OnCommit::Drop),
        (&["on", "commit", "delete", "rows"], ast::OnCommit::DeleteRows),
        (&["on", "commit", "preserve", "rows"], ast::OnCommit::PreserveRows),
    ];
    for from in 0..solid.len() {
        for (wanted, on_commit) in &clauses {
            if says(from, wanted) {
                let (first, last) = (solid[from], solid[from + wanted.len() - 1]);
                tokens.drain(first..=last);
                return Some(*on_commit);
            }
        }
    }
    None
}

/// CREATE UNLOGGED TABLE is CREATE TABLE: there is no log.
fn drop_unlogged(tokens: &mut Vec<TokenWithSpan>, words: &[String]) {
    let is_it =
        words.first().is_some_and(|first| first == "CREATE") && words.get(1).is_some_and(|second| second == "UNLOGGED");
    let unlogged = |token: &TokenWithSpan| is_word(token, "unlogged");
    if is_it && let Some(at) = tokens.iter().position(unlogged) {
        tokens.remove(at);
    }
}

/// `BETWEEN SYMMETRIC a AND b`: the parser does not know the word, and gets a prefix operator that nothing else uses.
/// `rewrite::precedence` takes it out again.
fn mark_symmetric(tokens: &mut [TokenWithSpan]) {
    let mut between = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Word(word) if word.keyword == Keyword::BETWEEN => between = true,
            Token::Word(word) if between && word.value.eq_ignore_ascii_case("symmetric") => {
                token.token = Token::DoubleExclamationMark;
                between = false;
            }
            _ => between = false,
        }
    }
}

/// The name of a column that `(record).*` has for all of the record's. `bind::records` puts them in its place.
pub(crate) const ALL_COLUMNS: &str = "\u{1}*";

/// `(record).*`: the parser knows it of names alone.
fn mark_all_columns(tokens: &mut [TokenWithSpan]) {
    let solid = |token: &&mut TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut before = [Token::EOF, Token::EOF];
    for token in tokens.iter_mut().filter(solid) {
        if token.token == Token::Mul && before == [Token::RParen, Token::Period] {
            token.token = Token::make_word(ALL_COLUMNS, Some('"'));
        }
        before = [before[1].clone(), token.token.clone()];
    }
}

/// Finds a table named by a word that PostgreSQL reserves: `SELECT FROM WHERE`.
struct Reserved;

impl Visitor for Reserved {
    type Break = Location;

    /// A string is no name, though the parser takes it for one; and it takes joins without a condition.
    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<Location> {
        if select.from.iter().any(from::lacks_condition) {
            return ControlFlow::Break(Location { line: 0, column: 0 });
        }
        for item in &select.projection {
            if let ast::SelectItem::ExprWithAlias { alias, .. } = item
                && alias.quote_style == Some('\'')
            {
                return ControlFlow::Break(alias.span.start);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<Location> {
        const WORDS: [&str; 24] = [
            "all",
            "and",
            "as",
            "case",
            "check",
            "create",
            "distinct",
            "else",
            "end",
            "except",
            "from",
            "group",
            "having",
            "intersect",
            "limit",
            "not",
            "on",
            "or",
            "order",
            "select",
            "table",
            "union",
            "where",
            "with",
        ];
        match relation.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)]
                if name.quote_style.is_none() && WORDS.contains(&name.value.to_lowercase().as_str()) =>
            {
                ControlFlow::Break(name.span.start)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// `WITH ... INSERT` is an INSERT whose source has the WITH.
pub(crate) fn unnested(mut statement: ast::Statement) -> ast::Statement {
    if let ast::Statement::Prepare { statement: inner, .. } | ast::Statement::Explain { statement: inner, .. } =
        &mut statement
    {
        **inner = unnested((**inner).clone());
        return statement;
    }
    let ast::Statement::Query(mut query) = statement else {
        return statement;
    };
    match (*query.body, query.with.take()) {
        (ast::SetExpr::Insert(ast::Statement::Insert(mut insert)), with) => {
            if let Some(source) = &mut insert.source
                && source.with.is_none()
            {
                source.with = with;
            }
            ast::Statement::Insert(insert)
        }
        (body, with) => {
            query.with = with;
            query.body = Box::new(body);
            ast::Statement::Query(query)
        }
    }
}

/// What follows the query of a view.
fn view_options(parser: &mut Parser, view: &mut ast::CreateView) {
    if view.materialized {
        if parser.parse_keywords(&[Keyword::WITH, Keyword::NO, Keyword::DATA]) {
            view.with_no_schema_binding = NO_DATA;
        }
        let _ = parser.parse_keywords(&[Keyword::WITH, Keyword::DATA]);
        return;
    }
    for (words, option) in [
        (["with", "local", "check", "option"].as_slice(), "local"),
        (&["with", "cascaded", "check", "option"], "cascaded"),
        (&["with", "check", "option"], "cascaded"),
    ] {
        if definition::take_words(parser, words) {
            // The tree has no place of its own for it, and PostgreSQL's CREATE VIEW no COMMENT.
            view.comment = Some(option.into());
            return;
        }
    }
}

/// CREATE TABLE AS ... WITH [NO] DATA.
fn with_data(parser: &mut Parser, parsed: &mut Kind) {
    let Kind::Sql(tree) = parsed else { return };
    if let ast::Statement::CreateView(view) = tree.as_mut() {
        return view_options(parser, view);
    }
    let ast::Statement::CreateTable(ast::CreateTable {
        query: Some(query),
        without_rowid,
        ..
    }) = tree.as_mut()
    else {
        return;
    };
    if parser.parse_keywords(&[Keyword::WITH, Keyword::NO, Keyword::DATA]) {
        *without_rowid = NO_DATA;
        let none = ast::Expr::Value(ast::Value::Number("0".into(), false).into());
        query.limit_clause = Some(ast::LimitClause::LimitOffset {
            limit: Some(none),
            offset: None,
            limit_by: Vec::new(),
        });
    } else {
        let _ = parser.parse_keywords(&[Keyword::WITH, Keyword::DATA]);
    }
}

/// Whether one of the tokens is this word, in quotes or not.
fn names(tokens: &[TokenWithSpan], word: &str) -> bool {
    let mut words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => Some(&word.value),
        _ => None,
    });
    words.any(|own| own.eq_ignore_ascii_case(word))
}

/// Statements that do nothing here, or that the parser does not know. Matched on tokens, so comments do not matter.
fn utility(words: &[String]) -> Option<Utility> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    Some(match (word(0), word(1)) {
        ("VACUUM", "ANALYZE") => return None,
        ("VACUUM", _) => Utility::Nothing("VACUUM"),
        ("CHECKPOINT", _) => Utility::Checkpoint,
        ("BACKUP", "") => Utility::Backup,
        ("REINDEX", _) => Utility::Nothing("REINDEX"),
        ("CLUSTER", _) => Utility::Nothing("CLUSTER"),
        ("DISCARD", _) => Utility::Discard,
        ("CREATE", "TRIGGER") => Utility::Unsupported("CREATE TRIGGER"),
        ("CREATE", "RULE") => Utility::Unsupported("CREATE RULE"),
        ("CREATE", "STATISTICS") => Utility::Unsupported("CREATE STATISTICS"),
        ("ALTER", "STATISTICS") => Utility::Unsupported("ALTER STATISTICS"),
        ("SECURITY", "LABEL") => Utility::Unsupported("SECURITY LABEL"),
        ("IMPORT", "FOREIGN") => Utility::Unsupported("IMPORT FOREIGN SCHEMA"),
        ("CREATE" | "ALTER", _) => {
            let after = if (word(1), word(2)) == ("OR", "REPLACE") { 3 } else { 1 };
            Utility::Unsupported(unknown_kind(word(after), word(after + 1))?)
        }
        ("PREPARE", "TRANSACTION") => Utility::Unsupported("PREPARE TRANSACTION"),
        ("COMMIT", "PREPARED") => Utility::Unsupported("COMMIT PREPARED"),
        ("ROLLBACK", "PREPARED") => Utility::Unsupported("ROLLBACK PREPARED"),
        _ => return None,
    })
}

/// What PostgreSQL has and Tenon has none of, by the words after CREATE or ALTER.
fn unknown_kind(word: &str, next: &str) -> Option<&'static str> {
    Some(match (word, next) {
        ("AGGREGATE", _) => "an aggregate of the database's own",
        ("CAST", _) => "a cast of the database's own",
        ("PUBLICATION", _) => "a publication",
        ("SUBSCRIPTION", _) => "a subscription",
        ("EVENT", "TRIGGER") => "an event trigger",
        ("CONSTRAINT", "TRIGGER") => "a constraint trigger",
        ("FOREIGN", "DATA") => "a foreign-data wrapper",
        ("FOREIGN", "TABLE") => "a foreign table",
        ("TEXT", "SEARCH") => "text search",
        ("LANGUAGE", _) | ("TRUSTED" | "PROCEDURAL", "LANGUAGE" | "PROCEDURAL") => "a language of the database's own",
        ("CONVERSION", _) | ("DEFAULT", "CONVERSION") => "a conversion",
        ("TRANSFORM", _) => "a transform",
        ("ACCESS", "METHOD") => "an access method of the database's own",
        ("TABLESPACE", _) => "a tablespace",
        _ => return None,
    })
}

/// Whether the definition of a table has a constraint that the parser does not know: `EXCLUDE USING gist (...)`.
fn has_exclusion(tokens: &[TokenWithSpan]) -> bool {
    let solid = tokens.iter().filter(|own| !matches!(own.token, Token::Whitespace(_)));
    let words: Vec<String> = solid.map(|own| own.token.to_string().to_lowercase()).collect();
    let defines = matches!(words.first().map(String::as_str), Some("create" | "alter"));
    let excludes = |four: &[String]| {
        let word = |at: usize| four[at].as_str();
        word(0) == "exclude" && (word(1) == "(" || word(1) == "using" && word(3) == "(")
    };
    defines && words.windows(4).any(excludes)
}

fn syntax_error(text: &str, tokens: &[TokenWithSpan], error: ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => lex::depth::too_deep(),
        ParserError::TokenizerError(message) => SqlError::new(state::SYNTAX_ERROR, message),
        // "Expected: end of statement, found: foo at Line: 1, Column: 8"
        ParserError::ParserError(message) => match location_in(&message) {
            Some(_) if has_exclusion(tokens) => SqlError::unsupported("an EXCLUDE constraint"),
            Some(at) if message.starts_with("Expected") => near(text, tokens, at),
            Some(at) => {
                let told = message
                    .rfind(" at Line: ")
                    .map_or(message.as_str(), |end| &message[..end]);
                SqlError::new(state::SYNTAX_ERROR, format!("syntax error: {told}")).position(position(text, at))
            }
            None if message.contains("found: EOF") => end_of_input(text, tokens),
            None => SqlError::new(state::SYNTAX_ERROR, format!("syntax error: {message}")),
        },
    }
}

/// PostgreSQL's sentence for the token at a place.
fn near(text: &str, tokens: &[TokenWithSpan], at: Location) -> SqlError {
    let found = tokens
        .iter()
        .find(|token| token.span.start == at && !matches!(token.token, Token::Whitespace(_)));
    match found {
        Some(token) if token.token != Token::EOF => {
            let start = byte_offset(text, token.span.start);
            let end = byte_offset(text, token.span.end).max(start);
            SqlError::new(
                state::SYNTAX_ERROR,
                format!("syntax error at or near \"{}\"", &text[start..end]),
            )
            .position(position(text, at))
        }
        _ => end_of_input(text, tokens),
    }
}

fn end_of_input(text: &str, tokens: &[TokenWithSpan]) -> SqlError {
    let end = tokens
        .iter()
        .rev()
        .find(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let place = end.map_or(1, |token| position(text, token.span.end));
    SqlError::new(state::SYNTAX_ERROR, "syntax error at end of input").position(place)
}

fn location_in(message: &str) -> Option<Location> {
    let rest = &message[message.rfind("Line: ")? + 6..];
    let (line, rest) = rest.split_once(", Column: ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Location {
        line: line.trim().parse().ok()?,
        column: column.parse().ok()?,
    })
    .filter(|at| at.line > 0)
}

/// The byte at a line and column, both counted in characters from 1.
pub fn byte_offset(text: &str, at: Location) -> usize {
    let mut line_start = 0;
    for _ in 1..at.line {
        match text[line_start..].find('\n') {
            Some(newline) => line_start += newline + 1,
            None => return text.len(),
        }
    }
    let column = at.column.saturating_sub(1) as usize;
    text[line_start..]
        .char_indices()
        .nth(column)
        .map_or(text.len(), |(byte, _)| line_start + byte)
}

/// The character position (from 1) of a line and column, as error reports count it.
pub fn position(text: &str, at: Location) -> usize {
    text[..byte_offset(text, at)].chars().count() + 1
}

/// Where an identifier stands in a statement, for errors about it: characters from 1. With a qualifier, the place is
/// the qualifier's.
pub fn find_identifier(text: &str, start: usize, end: usize, qualifier: Option<&str>, name: &str) -> Option<usize> {
    let tokens = lex::tokenize(&text[start..end], true).ok()?;
    let folded: Vec<(Option<String>, Location, bool)> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_some() => (Some(word.value.clone()), token.span.start, false),
            Token::Word(word) => (Some(word.value.to_lowercase()), token.span.start, false),
            Token::Period => (None, token.span.start, true),
            _ => (None, token.span.start, false),
        })
        .collect();
    let matches = |at: usize| folded[at].0.as_deref() == Some(name);
    let qualified = |at: usize| at >= 2 && folded[at - 1].2;
    let found = (0..folded.len()).find_map(|at| {
        if !matches(at) {
            return None;
        }
        match qualifier {
            Some(qualifier) if qualified(at) && folded[at - 2].0.as_deref() == Some(qualifier) => {
                Some(folded[at - 2].1)
            }
            Some(_) => None,
            None if !qualified(at) => Some(folded[at].1),
            None => None,
        }
    });
    let found = found.or_else(|| (0..folded.len()).find(|&at| matches(at)).map(|at| folded[at].1))?;
    let offset = start + byte_offset(&text[start..end], found);
    Some(text[..offset].chars().count() + 1)
}

/// The query that a text is, as that of a view; None where it is something else.
pub(crate) fn parse_query(text: &str) -> Result<Option<Box<ast::Query>>> {
    let first = parse(text)?.into_iter().next().map(|statement| statement.kind);
    Ok(match first {
        Some(Kind::Sql(tree)) => match *tree {
            ast::Statement::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    })
}

/// Parses one expression given as text (a column's default).
pub fn parse_expression(text: &str) -> Result<datafusion::sql::sqlparser::ast::Expr> {
    let fail = |error: ParserError| SqlError::new(state::SYNTAX_ERROR, format!("syntax error: {error}"));
    let mut parser = Parser::new(&DIALECT)
        .with_recursion_limit(NESTING_MAX)
        .with_tokens_with_locations(lex::tokenize(text, true)?);
    let mut expr = parser.parse_expr().map_err(fail)?;
    let _ = VisitMut::visit(&mut expr, &mut logic::Halved);
    Ok(expr)
}
