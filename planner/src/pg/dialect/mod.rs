//! The parser's PostgreSQL, with the expressions that it lacks.
//!
//! - calls with words for commas: SUBSTRING, OVERLAY, TRIM (`calls`);
//! - a type's name before a string, for names that the parser does not take for types;
//! - LIKE ANY and its kin, IS DISTINCT FROM as tight as other operators, and lists after IN that begin with a subquery.

mod calls;
mod subquery;

use crate::pg::rewrite::{VARIADIC, call};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, TypedString, UnaryOperator, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::any::TypeId;

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

#[derive(Debug)]
pub(crate) struct TenonDialect;

/// Answers that are the base's.
macro_rules! as_base {
    ($($question:ident)*) => { $(fn $question(&self) -> bool { BASE.$question() })* };
}

impl Dialect for TenonDialect {
    /// The parser asks for the dialect by its type.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        BASE.is_delimited_identifier_start(c)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        BASE.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        BASE.is_identifier_part(c)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        BASE.is_reserved_for_identifier(word)
    }

    fn is_column_alias(&self, word: &Keyword, parser: &mut Parser) -> bool {
        use Keyword::{ANALYZE, CLUSTER, EXCLUDE, EXPLAIN, FOR, ON, VIEW};
        match word {
            ANALYZE | CLUSTER | EXCLUDE | EXPLAIN | VIEW => true,
            // `INSERT ... SELECT 1 ON CONFLICT`, `SELECT 1 FOR UPDATE`: reserved words.
            ON | FOR => false,
            _ => BASE.is_column_alias(word, parser),
        }
    }

    fn is_table_alias(&self, word: &Keyword, parser: &mut Parser) -> bool {
        use Keyword::{CLUSTER, EXPLAIN, FORMAT, START, VIEW};
        matches!(word, CLUSTER | EXPLAIN | FORMAT | START | VIEW) || BASE.is_table_alias(word, parser)
    }

    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn is_custom_operator_part(&self, c: char) -> bool {
        BASE.is_custom_operator_part(c)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    as_base! {
        supports_unicode_string_literal supports_filter_during_aggregation supports_group_by_expr allow_extract_custom
        allow_extract_single_quotes supports_create_index_with_clause supports_explain_with_utility_options
        supports_listen_notify supports_factorial_operator supports_bitwise_shift_operators supports_comment_on
        supports_load_extension supports_named_fn_args_with_colon_operator
        supports_empty_projections supports_nested_comments supports_string_escape_constant
        supports_numeric_literal_underscores supports_array_typedef_with_brackets supports_geometric_types supports_set_names
        supports_alter_column_type_using supports_notnull_operator supports_interval_options supports_insert_table_alias
        supports_create_table_like_parenthesized supports_select_wildcard_with_alias supports_comma_separated_trim
        supports_xml_expressions
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            // Operators like all others.
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(self.prec_value(Precedence::PgOther))),
            _ => BASE.get_next_precedence(parser),
        }
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token == Token::LParen {
            return subquery::parenthesized(parser);
        }
        let Token::Word(word) = &parser.peek_token_ref().token else {
            return None;
        };
        let (word, next) = (word.clone(), parser.peek_nth_token(1).token);
        match (word.keyword, next) {
            (Keyword::SUBSTRING, Token::LParen) => calls::substring(parser).transpose(),
            (Keyword::OVERLAY, Token::LParen) => calls::overlay(parser).transpose(),
            (Keyword::TRIM, Token::LParen) => calls::trim(parser).transpose(),
            (Keyword::OPERATOR, Token::LParen) => Some(prefix_operator(parser)),
            (Keyword::VARIADIC, _) => {
                parser.next_token();
                Some(parser.parse_expr().map(|list| call(VARIADIC, vec![list])))
            }
            // Functions are one flat space here, and some of their names are the parser's own words.
            (Keyword::NoKeyword, Token::Period)
                if word.value.eq_ignore_ascii_case("pg_catalog")
                    && parser.peek_nth_token_ref(3).token == Token::LParen =>
            {
                parser.next_token();
                parser.next_token();
                Some(parser.parse_prefix())
            }
            (Keyword::NoKeyword | Keyword::NAME, Token::SingleQuotedString(_)) => Some(typed_string(parser)),
            (_, Token::Period)
                if matches!(parser.peek_nth_token_ref(2).token, Token::Word(_))
                    && matches!(parser.peek_nth_token_ref(3).token, Token::SingleQuotedString(_)) =>
            {
                Some(typed_string(parser))
            }
            _ => None,
        }
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        let keyword = |at: usize| match parser.peek_nth_token_ref(at).token {
            Token::Word(ref word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let compares = |token: &Token| {
            matches!(
                token,
                Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq
            )
        };
        if is_comparison(left) && compares(&parser.peek_token_ref().token) {
            return Some(parser.expected_ref("end of comparison", parser.peek_token_ref()));
        }
        if keyword(0) == Keyword::IS {
            let negated = keyword(1) == Keyword::NOT;
            let at = 1 + usize::from(negated);
            if (keyword(at), keyword(at + 1)) == (Keyword::DISTINCT, Keyword::FROM) {
                return Some(distinct(parser, left, negated));
            }
            return None;
        }
        if keyword(0) == Keyword::COLLATE {
            parser.next_token();
            let collation = parser.parse_object_name(false);
            return Some(collation.map(|collation| Expr::Collate {
                expr: Box::new(left.clone()),
                collation,
            }));
        }
        let negated = keyword(0) == Keyword::NOT;
        let at = usize::from(negated);
        let insensitive = match keyword(at) {
            Keyword::IN if subquery::begins_list(parser, at + 1) => return Some(in_list(parser, left, negated)),
            Keyword::LIKE => false,
            Keyword::ILIKE => true,
            _ => return None,
        };
        let all = match keyword(at + 1) {
            Keyword::ALL => true,
            Keyword::ANY | Keyword::SOME => false,
            _ => return None,
        };
        let subquery = matches!(keyword(at + 3), Keyword::SELECT | Keyword::WITH | Keyword::VALUES);
        if parser.peek_nth_token_ref(at + 2).token != Token::LParen || subquery {
            return None;
        }
        for _ in 0..at + 3 {
            parser.next_token();
        }
        Some(like_array(parser, left, [negated, insensitive, all]))
    }
}

/// `OPERATOR(pg_catalog.-) x`, which binds as operators of all other names do.
fn prefix_operator(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_keyword_is(Keyword::OPERATOR)?;
    parser.expect_token(&Token::LParen)?;
    while parser.peek_nth_token_ref(1).token == Token::Period {
        parser.parse_identifier()?;
        parser.expect_token(&Token::Period)?;
    }
    let op = match parser.next_token().token {
        Token::Plus => UnaryOperator::Plus,
        Token::Minus => UnaryOperator::Minus,
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        other => return Err(ParserError::ParserError(format!("syntax error at or near \"{other}\""))),
    };
    parser.expect_token(&Token::RParen)?;
    let expr = Box::new(parser.parse_subexpr(BASE.prec_value(Precedence::PgOther))?);
    Ok(Expr::UnaryOp { op, expr })
}

/// Comparisons are not chained without parentheses.
fn is_comparison(expr: &Expr) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(
        expr,
        Expr::BinaryOp {
            op: Eq | NotEq | Lt | LtEq | Gt | GtEq,
            ..
        }
    )
}

/// `IS [NOT] DISTINCT FROM`, whose second operand ends where that of another IS would.
fn distinct(parser: &mut Parser, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
    for _ in 0..3 + usize::from(negated) {
        parser.next_token();
    }
    let left = Box::new(left.clone());
    let right = Box::new(parser.parse_subexpr(BASE.prec_value(Precedence::Is))?);
    Ok(match negated {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    })
}

/// `[NOT] IN (a, b)`.
fn in_list(parser: &mut Parser, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
    for _ in 0..1 + usize::from(negated) {
        parser.next_token();
    }
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList {
        expr: Box::new(left.clone()),
        list,
        negated,
    })
}

/// `LIKE ANY (array)`, the array and what follows.
fn like_array(parser: &mut Parser, left: &Expr, told: [bool; 3]) -> Result<Expr, ParserError> {
    let array = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    let mut arguments = vec![left.clone(), array];
    arguments.extend(told.map(|flag| Expr::Value(Value::Boolean(flag).into())));
    Ok(call("tenon_like_array", arguments))
}

/// A literal of a type that the parser takes for a name of the user's.
fn typed_string(parser: &mut Parser) -> Result<Expr, ParserError> {
    Ok(Expr::TypedString(TypedString {
        data_type: DataType::Custom(parser.parse_object_name(false)?, Vec::new()),
        value: parser.parse_value()?,
        uses_odbc_syntax: false,
    }))
}
