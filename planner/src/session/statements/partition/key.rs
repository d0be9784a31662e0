//! PARTITION BY: what a table is divided by.

use crate::catalog::bind::{Binder, fold};
use crate::catalog::partitions::shown;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::partition_hash::hashes;
use crate::pg::rewrite::{function_name, rewrite};
use crate::session::statements::{constraints, defaults, generated, qualify};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use std::sync::Arc;
use tenon_storage::quote;
use tenon_storage::{PartitionKey, PartitionStrategy, Partitioning, SqlType, TableDefinition};

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_OBJECT_DEFINITION, message)
}

/// The clause, which the parser takes for a call: `RANGE (a, b)`.
pub(crate) fn declared(binder: &Binder, clause: &Expr, schema: &Arc<Schema>) -> Result<Partitioning> {
    let Expr::Function(call) = clause else {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error in PARTITION BY"));
    };
    let word = function_name(call);
    let strategy = match word.as_str() {
        "range" => PartitionStrategy::Range,
        "list" => PartitionStrategy::List,
        "hash" => PartitionStrategy::Hash,
        _ => {
            let message = format!("unrecognized partitioning strategy \"{word}\"");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
    };
    let mut keys = Vec::new();
    if let FunctionArguments::List(arguments) = &call.args {
        for argument in &arguments.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
                return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error in PARTITION BY"));
            };
            keys.push(key(binder, expr, schema)?);
        }
    }
    if strategy == PartitionStrategy::Hash
        && let Some(key) = keys.iter().find(|key| !hashes(key.sql_type))
    {
        return Err(SqlError::unsupported(format!(
            "PARTITION BY HASH of type {}",
            key.sql_type.base_name()
        )));
    }
    if strategy == PartitionStrategy::List && keys.len() != 1 {
        return Err(refused(
            "cannot use \"list\" partition strategy with more than one column",
        ));
    }
    Ok(Partitioning { strategy, keys })
}

fn key(binder: &Binder, expr: &Expr, schema: &Arc<Schema>) -> Result<PartitionKey> {
    let expr = match expr {
        Expr::Collate { expr, .. } => expr,
        other => other,
    };
    if let Expr::Identifier(name) = expr {
        let name = fold(name);
        let Ok(field) = schema.field_with_name(&name) else {
            if ["tableoid", "xmin", "xmax", "cmin", "cmax", "ctid"].contains(&name.as_str()) {
                return Err(refused(format!("cannot use system column \"{name}\" in partition key")));
            }
            let message = format!("column \"{name}\" named in partition key does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        };
        let sql_type =
            SqlType::from_field(field).ok_or_else(|| SqlError::unsupported("a partition key of this type"))?;
        return Ok(PartitionKey {
            expression: quote::name(&name),
            is_column: true,
            sql_type: ordered(sql_type)?,
        });
    }
    let inner = match expr {
        Expr::Nested(inner) => inner,
        other => other,
    };
    defaults::refuse_sets(inner, "partition key expression", "partition key expressions")?;
    let mut tree = inner.clone();
    rewrite(&mut tree);
    let own = DFSchema::try_from(schema.as_ref().clone()).map_err(|error| from_datafusion(&error))?;
    let planned = binder.expression(tree, &own)?;
    if planned.column_refs().is_empty() {
        return Err(refused("cannot use constant expression as partition key"));
    }
    if generated::changes(&planned) {
        return Err(refused(
            "functions in partition key expression must be marked IMMUTABLE",
        ));
    }
    let (_, field) = planned.to_field(&own).map_err(|error| from_datafusion(&error))?;
    if matches!(field.data_type(), DataType::Struct(_)) && SqlType::range_of(field.data_type()).is_none() {
        return Err(SqlError::unsupported("a partition key of records"));
    }
    let sql_type = SqlType::from_field(&field).ok_or_else(|| SqlError::unsupported("a partition key of this type"))?;
    let is_call = matches!(inner, Expr::Function(_));
    let kept = qualify::expression(binder, inner)?;
    Ok(PartitionKey {
        expression: if is_call { kept.to_string() } else { format!("({kept})") },
        is_column: false,
        sql_type: ordered(sql_type)?,
    })
}

/// Types that have an order.
fn ordered(sql_type: SqlType) -> Result<SqlType> {
    if matches!(sql_type, SqlType::Json) {
        let message = format!(
            "data type {} has no default operator class for access method \"btree\"",
            sql_type.base_name()
        );
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message).hint(
            "You must specify a btree operator class or define a default btree operator class for the data type.",
        ));
    }
    if matches!(sql_type, SqlType::Array(_) | SqlType::Jsonb) {
        return Err(SqlError::unsupported(format!("a partition key of type {sql_type}")));
    }
    Ok(sql_type)
}

/// 0A000 for a unique constraint that could not be kept partition by partition.
pub(crate) fn check_unique(
    partitioning: Option<&Partitioning>,
    table: &str,
    columns: &[String],
    what: &str,
) -> Result<()> {
    for key in partitioning.iter().flat_map(|partitioning| &partitioning.keys) {
        if !key.is_column {
            let message = format!("unsupported {what} constraint with partition key definition");
            return Err(SqlError::unsupported_as(message).detail(format!(
                "{what} constraints cannot be used when partition keys include expressions."
            )));
        }
        if !columns.iter().any(|column| quote::name(column) == key.expression) {
            let message = "unique constraint on partitioned table must include all partitioning columns";
            return Err(SqlError::unsupported_as(message).detail(format!(
                "{what} constraint on table \"{table}\" lacks column \"{}\" which is part of the partition key.",
                shown::key(key).trim_matches('"')
            )));
        }
    }
    Ok(())
}

/// 42P16 for a change of a column that rows are divided by.
pub(crate) fn refuse_change_of_key(
    binder: &Binder,
    definition: &TableDefinition,
    column: &str,
    verb: &str,
) -> Result<()> {
    let mut levels = vec![(definition.name.clone(), definition.partitioning.clone())];
    let below = binder.snapshot.partitions_under(definition.oid);
    levels.extend(below.iter().map(|own| (own.name.clone(), own.partitioning.clone())));
    for (name, partitioning) in levels {
        for key in partitioning.iter().flat_map(|partitioning| &partitioning.keys) {
            if constraints::mentions(&key.expression, column)? {
                let message = format!(
                    "cannot {verb} column \"{column}\" because it is part of the partition key of relation \"{name}\""
                );
                return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
            }
        }
    }
    Ok(())
}

/// Keys after a column has another name.
pub(crate) fn renamed(partitioning: &Partitioning, from: &str, to: &str) -> Result<Partitioning> {
    let key = |key: &PartitionKey| {
        Ok(PartitionKey {
            expression: constraints::renamed_text(&key.expression, from, to)?,
            ..key.clone()
        })
    };
    Ok(Partitioning {
        strategy: partitioning.strategy,
        keys: partitioning.keys.iter().map(key).collect::<Result<_>>()?,
    })
}
