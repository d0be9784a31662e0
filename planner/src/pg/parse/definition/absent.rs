//! DROP of what no database here ever has: triggers, rules and others. With IF EXISTS it is a notice,
//! without it PostgreSQL's error for an object that is not there.

use super::{Definition, take_words};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct DropAbsent {
    /// `DROP ROLE`
    pub tag: String,
    pub if_exists: bool,
    /// What errors call each object.
    pub objects: Vec<String>,
    /// The relation that a trigger, rule or policy is of.
    pub relation: Option<String>,
    /// Aggregates and operators are functions, and have their state.
    pub is_function: bool,
}

/// The words after DROP, and what errors call it.
const KINDS: [(&[&str], &str); 21] = [
    (&["user", "mapping"], "user mapping"),
    (&["collation"], "collation"),
    (&["conversion"], "conversion"),
    (&["text", "search", "parser"], "text search parser"),
    (&["text", "search", "dictionary"], "text search dictionary"),
    (&["text", "search", "template"], "text search template"),
    (&["text", "search", "configuration"], "text search configuration"),
    (&["aggregate"], "aggregate"),
    (&["operator", "class"], "operator class"),
    (&["operator", "family"], "operator family"),
    (&["operator"], "operator"),
    (&["language"], "language"),
    (&["procedural", "language"], "language"),
    (&["trigger"], "trigger"),
    (&["rule"], "rule"),
    (&["policy"], "policy"),
    (&["foreign", "data", "wrapper"], "foreign-data wrapper"),
    (&["server"], "server"),
    (&["access", "method"], "access method"),
    (&["event", "trigger"], "event trigger"),
    (&["statistics"], "statistics object"),
];

/// Whether the words after DROP name such a kind.
pub(super) fn knows(words: &[String]) -> bool {
    KINDS.iter().any(|(kind, _)| {
        let given = words.iter().skip(1).take(kind.len());
        words.len() > kind.len() && given.zip(*kind).all(|(given, word)| given.eq_ignore_ascii_case(word))
    })
}

/// From the word after DROP.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let Some((words, kind)) = KINDS.iter().find(|(words, _)| take_words(parser, words)) else {
        let next = parser.peek_token();
        return parser.expected("a kind of object", next);
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let is_function = matches!(*kind, "aggregate" | "operator");
    let mut drop = DropAbsent {
        tag: format!("DROP {}", words.join(" ").to_uppercase()),
        if_exists,
        objects: Vec::new(),
        relation: None,
        is_function,
    };
    let of_relation = matches!(*kind, "trigger" | "rule" | "policy");
    loop {
        let mut name = String::new();
        let mut depth = 0;
        loop {
            match parser.peek_token().token {
                Token::EOF => break,
                Token::Comma if depth == 0 => break,
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ if depth == 0
                    && ["cascade", "restrict", "using", "on"]
                        .iter()
                        .any(|word| super::is_word(parser, word)) =>
                {
                    break;
                }
                _ => {}
            }
            name.push_str(&parser.next_token().token.to_string());
        }
        if name.is_empty() {
            let next = parser.peek_token();
            return parser.expected("a name", next);
        }
        drop.objects.push(match *kind {
            _ if is_function => format!("{kind} {name}"),
            "collation" => format!("collation \"{name}\" for encoding \"UTF8\""),
            _ => format!("{kind} \"{name}\""),
        });
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if of_relation && take_words(parser, &["on"]) {
        let relation = parser.parse_object_name(false)?;
        let shown = relation.to_string();
        drop.objects
            .iter_mut()
            .for_each(|object| object.push_str(&format!(" for relation \"{shown}\"")));
        drop.relation = Some(shown);
    }
    if take_words(parser, &["using"]) {
        let method = parser.parse_identifier()?;
        drop.objects
            .iter_mut()
            .for_each(|object| object.push_str(&format!(" for access method \"{method}\"")));
    }
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(Definition::DropAbsent(Box::new(drop)))
}
