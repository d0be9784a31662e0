//! `pg_stats`: what the planner knows of columns.

use super::relations::stored;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use tenon_storage::datetime::shown;
use tenon_storage::{Bound, Relation, SqlType, privilege};

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    for table in stored(binder).filter(|table| table.rows() > 0) {
        let rows = table.rows() as f64;
        let columns = table.definition().columns.iter().zip(&table.statistics().columns);
        let relation = Relation::Table(table.clone());
        for (at, (column, statistics)) in columns.enumerate() {
            // They tell some of its values.
            let named = [column.name.as_str()];
            if binder
                .rights()
                .check_columns(&relation, privilege::SELECT, named)
                .is_err()
            {
                continue;
            }
            let distinct = table.distinct(at).max(1) as f64;
            let distribution = table.distribution(at);
            let (common, shares): (Vec<&Bound>, Vec<f64>) = distribution.common.iter().map(|(v, s)| (v, *s)).unzip();
            let shares: Vec<String> = shares.iter().map(|share| (*share as f32).to_string()).collect();
            let values = |bounds: &[&Bound]| array(bounds, column.sql_type).filter(|_| !bounds.is_empty());
            let bounds: Vec<&Bound> = distribution.bounds.iter().collect();
            out.push(row! {
                "schemaname": table.definition().schema_name.as_str(),
                "tablename": table.name(),
                "attname": column.name.as_str(),
                "inherited": false,
                "null_frac": statistics.null_count as f64 / rows,
                "avg_width": distribution.width.round() as i64,
                // As in PostgreSQL: a share of the rows, negative, where the number grows with them.
                "n_distinct": if distinct > 0.1 * rows { -distinct / rows } else { distinct },
                "most_common_vals": values(&common),
                "most_common_freqs": (!shares.is_empty()).then(|| format!("{{{}}}", shares.join(","))),
                "histogram_bounds": values(&bounds),
                "correlation": distribution.correlation,
            });
        }
    }
    out
}

/// Values as the text of an array.
fn array(values: &[&Bound], sql_type: SqlType) -> Option<String> {
    let mut texts = Vec::with_capacity(values.len());
    for value in values {
        let one = value.to_array(&sql_type.data_type())?;
        texts.push(element(&shown(&one, 0)));
    }
    Some(format!("{{{}}}", texts.join(",")))
}

/// An element quoted where array syntax wants it.
fn element(text: &str) -> String {
    let plain = !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(|c: char| c.is_whitespace() || "{},\"\\".contains(c));
    if plain {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
