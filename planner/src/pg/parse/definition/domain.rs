//! CREATE and ALTER DOMAIN.

use super::{Definition, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{ColumnOption, DataType, Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct CreateDomain {
    pub name: ObjectName,
    pub data_type: DataType,
    pub default: Option<Expr>,
    /// Whether NOT NULL and NULL were said.
    pub not_null: bool,
    pub null: bool,
    pub checks: Vec<(Option<String>, Expr)>,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one a statement")]
pub(crate) enum DomainAction {
    /// None: DROP DEFAULT.
    Default(Option<Expr>),
    NotNull(bool),
    AddCheck {
        name: Option<String>,
        condition: Box<Expr>,
        valid: bool,
    },
    DropConstraint {
        name: String,
        if_exists: bool,
    },
    RenameConstraint(String, String),
    Rename(String),
    SetSchema(String),
    Nothing,
}

/// From the name on.
pub(super) fn create(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let name = parser.parse_object_name(false)?;
    let _ = parser.parse_keyword(Keyword::AS);
    let mut domain = CreateDomain {
        name,
        data_type: parser.parse_data_type()?,
        default: None,
        not_null: false,
        null: false,
        checks: Vec::new(),
    };
    loop {
        let name = match parser.parse_keyword(Keyword::CONSTRAINT) {
            true => Some(fold(&parser.parse_identifier()?)),
            false => None,
        };
        if take_words(parser, &["collate"]) {
            parser.parse_object_name(false)?;
            continue;
        }
        match parser.parse_optional_column_option()? {
            Some(ColumnOption::Default(expr)) => domain.default = Some(expr),
            Some(ColumnOption::NotNull) => domain.not_null = true,
            Some(ColumnOption::Null) => domain.null = true,
            Some(ColumnOption::Check(check)) => domain.checks.push((name, *check.expr)),
            Some(_) => {
                let next = parser.peek_token();
                return parser.expected("a constraint of a domain", next);
            }
            None if name.is_some() => {
                let next = parser.peek_token();
                return parser.expected("a constraint", next);
            }
            None => return Ok(Definition::CreateDomain(Box::new(domain))),
        }
    }
}

/// From the name on.
pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let name = parser.parse_object_name(false)?;
    let word = |ident: Ident| fold(&ident);
    let action = if take_words(parser, &["set", "default"]) {
        DomainAction::Default(Some(parser.parse_expr()?))
    } else if take_words(parser, &["drop", "default"]) {
        DomainAction::Default(None)
    } else if take_words(parser, &["set", "not", "null"]) {
        DomainAction::NotNull(true)
    } else if take_words(parser, &["drop", "not", "null"]) {
        DomainAction::NotNull(false)
    } else if take_words(parser, &["drop", "constraint"]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = word(parser.parse_identifier()?);
        let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
        DomainAction::DropConstraint { name, if_exists }
    } else if take_words(parser, &["rename", "constraint"]) {
        let from = word(parser.parse_identifier()?);
        parser.expect_keyword_is(Keyword::TO)?;
        DomainAction::RenameConstraint(from, word(parser.parse_identifier()?))
    } else if take_words(parser, &["rename", "to"]) {
        DomainAction::Rename(word(parser.parse_identifier()?))
    } else if take_words(parser, &["set", "schema"]) {
        DomainAction::SetSchema(word(parser.parse_identifier()?))
    } else if take_words(parser, &["owner", "to"]) {
        let to = super::role::name(parser)?;
        let (tag, of) = ("ALTER DOMAIN".to_string(), super::grant::Owned::Type(name));
        return Ok(Definition::OwnerTo { tag, of, to });
    } else if take_words(parser, &["validate", "constraint"]) {
        parser.parse_identifier()?;
        DomainAction::Nothing
    } else {
        parser.expect_keyword_is(Keyword::ADD)?;
        let own = match parser.parse_keyword(Keyword::CONSTRAINT) {
            true => Some(word(parser.parse_identifier()?)),
            false => None,
        };
        parser.expect_keyword_is(Keyword::CHECK)?;
        parser.expect_token(&Token::LParen)?;
        let condition = Box::new(parser.parse_expr()?);
        parser.expect_token(&Token::RParen)?;
        let valid = !take_words(parser, &["not", "valid"]);
        DomainAction::AddCheck {
            name: own,
            condition,
            valid,
        }
    };
    Ok(Definition::AlterDomain { name, action })
}

/// From the names on.
pub(super) fn drop(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let _ = !cascade && parser.parse_keyword(Keyword::RESTRICT);
    Ok(Definition::DropDomain {
        if_exists,
        names,
        cascade,
    })
}
