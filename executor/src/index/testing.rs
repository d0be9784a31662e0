//! A table of random rows with indexes, and random comparisons of its columns, for tests.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal, in_list};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tenon_storage::numeric::Numeric;
use tenon_storage::{
    ColumnDef, ColumnOrder, Database, IndexDef, Keys, MemoryBudget, RowLocation, Segment, SqlType, TableDef, TableRows,
    TableVersion, Transaction,
};

pub(crate) type Expr = Arc<dyn PhysicalExpr>;

pub(crate) const COLUMNS: [(&str, SqlType); 4] = [
    ("k", SqlType::Int4),
    ("s", SqlType::Text),
    ("f", SqlType::Float8),
    ("n", SqlType::Numeric),
];
pub(crate) const INDEXES: [&[&str]; 6] = [&["k"], &["s"], &["f"], &["k", "s"], &["n", "k"], &["s", "f", "k"]];

/// `TENON_SEED`, or a fresh seed; printed.
pub(crate) fn seeded() -> (u64, StdRng) {
    let given = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

pub(crate) fn database(memory: &Arc<MemoryBudget>) -> Arc<Database> {
    let database = Database::new(Arc::clone(memory));
    let mut transaction = database.begin();
    let def = TableDef {
        columns: COLUMNS
            .iter()
            .map(|(name, sql_type)| ColumnDef::new(*name, *sql_type))
            .collect(),
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).unwrap();
    for columns in INDEXES {
        let def = IndexDef {
            columns: columns
                .iter()
                .map(|name| (name.to_string(), ColumnOrder::default()))
                .collect(),
            ..IndexDef::default()
        };
        transaction.create_index("public", "t", def).unwrap();
    }
    transaction.commit().unwrap();
    database
}

pub(crate) fn table(transaction: &Transaction) -> Arc<TableVersion> {
    Arc::clone(transaction.state().table("public", "t").unwrap())
}

/// A value of a column, from few enough that values meet; sometimes NULL.
pub(crate) fn value(rng: &mut StdRng, column: usize) -> ScalarValue {
    let null = rng.random_ratio(1, 12);
    match column {
        0 => ScalarValue::Int32((!null).then(|| rng.random_range(-40..40))),
        1 => {
            let length = rng.random_range(0..14);
            let text: String = (0..length)
                .map(|_| *[b'a', b'b'].choose(rng).unwrap() as char)
                .collect();
            let text = if rng.random_bool(0.5) {
                format!("customer{text}")
            } else {
                text
            };
            ScalarValue::Utf8View((!null).then_some(text))
        }
        2 => {
            let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            let float = match rng.random_ratio(1, 3) {
                true => *special.choose(rng).unwrap(),
                false => f64::from(rng.random_range(-9..9)) / 2.0,
            };
            ScalarValue::Float64((!null).then_some(float))
        }
        _ => ScalarValue::LargeBinary((!null).then(|| Numeric::of_i128(rng.random_range(-50..50), 1).to_bytes())),
    }
}

pub(crate) fn segments(rng: &mut StdRng, transaction: &Transaction, rows: usize) -> Vec<Arc<Segment>> {
    if rows == 0 {
        return vec![];
    }
    let table = table(transaction);
    let columns = (0..COLUMNS.len()).map(|column| {
        let values: Vec<ScalarValue> = (0..rows).map(|_| value(rng, column)).collect();
        ScalarValue::iter_to_array(values).unwrap()
    });
    let mut writer = transaction.writer(&table);
    let batch = RecordBatch::try_new(table.schema().clone(), columns.collect()).unwrap();
    writer.append(&batch).unwrap();
    writer.finish().unwrap()
}

/// Keeps each row with probability `share`, and adds rows.
pub(crate) fn replace(rng: &mut StdRng, transaction: &mut Transaction, share: f64, added: usize) {
    let table = table(transaction);
    let mut gone = TableRows::default();
    for (at, segment) in table.segments().iter().enumerate() {
        if rng.random_bool(0.6) {
            for row in (0..segment.rows()).filter(|_| !rng.random_bool(share)) {
                gone.insert(RowLocation { segment: at, row });
            }
        }
    }
    let added = segments(rng, transaction, added);
    transaction.replace_rows(&table, &gone, added, Keys::Changed).unwrap();
}

pub(crate) fn comparison(rng: &mut StdRng, column: usize) -> Expr {
    let of_column = || Arc::new(Column::new(COLUMNS[column].0, column)) as Expr;
    let literal = |rng: &mut StdRng| {
        let value = std::iter::repeat_with(|| value(rng, column))
            .find(|value| !value.is_null())
            .unwrap();
        Arc::new(Literal::new(value)) as Expr
    };
    let equal = |rng: &mut StdRng| Arc::new(BinaryExpr::new(of_column(), Operator::Eq, literal(rng))) as Expr;
    match rng.random_range(0..6) {
        0 => equal(rng),
        1 => Arc::new(BinaryExpr::new(equal(rng), Operator::Or, equal(rng))),
        2 => {
            let list = (0..rng.random_range(1..9)).map(|_| literal(rng)).collect();
            in_list(of_column(), list, &false, &schema()).unwrap()
        }
        _ => {
            let op = *[Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq]
                .choose(rng)
                .unwrap();
            if rng.random_bool(0.5) {
                Arc::new(BinaryExpr::new(of_column(), op, literal(rng)))
            } else {
                Arc::new(BinaryExpr::new(literal(rng), op, of_column()))
            }
        }
    }
}

pub(crate) fn schema() -> Schema {
    Schema::new(
        COLUMNS
            .iter()
            .map(|(name, sql_type)| sql_type.field(*name, true))
            .collect::<Vec<_>>(),
    )
}
