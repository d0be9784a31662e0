//! Types of records: composite types, and the rows of relations. As Arrow types they are structs.

use super::{Binder, parts};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::foreign::is_foreign;
use crate::pg::parse::parse_expression;
use crate::pg::types::planner::{PgTypePlanner, WRITTEN, sql_type};
use crate::pg::types::{ARRAY_OID_KEY, OID_KEY};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef, Fields};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, Ident, ObjectName};
use std::sync::Arc;
use tenon_storage::composite_type::{array_of_rows, of_rows_of_array, within};
use tenon_storage::range::{RangeType, UserRange};
use tenon_storage::{
    ArrayType, Attribute, ColumnDef, Composite, CompositeType, EnumType, Object, ObjectKey, SqlType, TableVersion,
    quote,
};

/// How a type of ranges is called by its oid, wherever it is: no name that a client writes begins so.
const OF_OID: &str = "\u{1}type ";

/// A type as it stands in a statement, from its text.
pub(crate) fn parsed(declared: &str) -> Result<DataType> {
    match parse_expression(&format!("NULL::{declared}"))? {
        Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(crate::pg::error::SqlError::internal("a type is no type")),
    }
}

impl Binder {
    /// The composite type that a name stands for.
    pub(crate) fn composite(&self, name: &ObjectName) -> Option<Arc<Composite>> {
        self.type_named(parts(name), |object| match object {
            Object::Composite(composite) => Some(composite.clone()),
            _ => None,
        })
    }

    /// A type by the parts of its name, in its schema or in the first of the search path that has one for `of`.
    pub(crate) fn type_named<T>(&self, mut parts: Vec<String>, of: impl Fn(&Object) -> Option<T>) -> Option<T> {
        let name = parts.pop()?;
        let in_schema = |schema: String| {
            let name = name.clone();
            of(self.snapshot.objects().get(&ObjectKey::Type { schema, name })?)
        };
        match parts.pop() {
            Some(schema) => in_schema(self.names().temporary(Some(&schema))?.to_string()),
            None => self.path().iter().cloned().find_map(in_schema),
        }
    }

    /// The enum type that a name stands for.
    pub(crate) fn enum_named(&self, name: &ObjectName) -> Option<&'static EnumType> {
        self.type_named(parts(name), enum_of)
    }

    /// The type of ranges that a name stands for, or of whose multiranges it does.
    pub(crate) fn range_object(&self, name: &ObjectName) -> Option<(&'static UserRange, bool)> {
        if let [name] = parts(name).as_slice()
            && let Some(oid) = name.strip_prefix(OF_OID)
        {
            return self.range_of_oid(oid.parse().ok()?);
        }
        self.type_named(parts(name), |object| match object {
            Object::Range(of, multi) => Some((*of, *multi)),
            _ => None,
        })
    }

    /// The type of ranges of an oid, or of multiranges (true), as the snapshot has it.
    pub(crate) fn range_of_oid(&self, oid: u32) -> Option<(&'static UserRange, bool)> {
        let mut all = self.snapshot.objects().values();
        all.find_map(|object| match object {
            Object::Range(of, false) if of.oid == oid => Some((*of, false)),
            Object::Range(of, true) if of.multirange_oid == oid => Some((*of, true)),
            _ => None,
        })
    }

    /// The same as a type.
    pub(crate) fn range_named(&self, name: &ObjectName) -> Option<SqlType> {
        let (of, multi) = self.range_object(name)?;
        Some(match multi {
            false => SqlType::Range(RangeType::User(of)),
            true => SqlType::Multirange(RangeType::User(of)),
        })
    }

    /// A function that all sessions have, one of the catalogs, or that which makes values of a type of ranges that is called so.
    pub(super) fn found_function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if name == "pg_typeof" {
            let shown = crate::catalog::system::written_otherwise(self);
            return Some(Arc::new(crate::pg::functions::TypeOf::udf(shown)));
        }
        let shared = self.services.state.udf(name).ok().filter(|_| !is_foreign(name));
        if let Some(own) = shared.or_else(|| crate::catalog::system::function(self, name)) {
            return Some(own);
        }
        let parts = name
            .split('.')
            .map(|part| Ident::with_quote('"', part.trim_matches('"')));
        let of = self.range_named(&ObjectName::from(parts.collect::<Vec<_>>()))?;
        self.facts.used.store(true, std::sync::atomic::Ordering::Relaxed);
        Some(Arc::new(crate::pg::functions::range_constructor(of)))
    }

    /// A type that columns can have: of the system, an enum, or a composite type of such.
    pub(crate) fn sql_type(&self, declared: &DataType) -> Result<SqlType> {
        let unknown = match sql_type(declared) {
            Err(error) if error.state == state::UNDEFINED_OBJECT => error,
            known => return known,
        };
        let Ok(field) = self.field_of_type(declared) else {
            return Err(unknown);
        };
        SqlType::from_field(&field).ok_or_else(|| SqlError::unsupported(format!("a column of type {declared}")))
    }

    pub(crate) fn composite_declared(&self, declared: &str) -> Option<Arc<Composite>> {
        match parsed(declared).ok()? {
            DataType::Custom(name, arguments) if arguments.is_empty() => self.composite(&name),
            _ => None,
        }
    }

    /// Names and types, as declared, of the columns of a composite type or of a relation's rows.
    pub(crate) fn columns_of_type(&self, declared: &DataType) -> Option<Vec<(String, String)>> {
        let DataType::Custom(name, arguments) = declared else {
            return None;
        };
        if !arguments.is_empty() || PgTypePlanner.plan_type_field(declared).is_ok() {
            return None;
        }
        if let Some(composite) = self.composite(name) {
            return Some(composite.columns.clone());
        }
        let relation = self.names().existing(name).ok()??;
        if let Some(table) = relation.as_table() {
            let columns = table.definition().columns.iter();
            return Some(columns.map(|own| (own.name.clone(), declared_as(own))).collect());
        }
        let fields = relation.columns().fields().iter();
        let columns = fields.map(|field| Some((field.name().clone(), named_in_full(SqlType::from_field(field)?))));
        columns.collect()
    }

    /// The table for whose rows a name stands, as a type that columns can have.
    pub(crate) fn row_type_table(&self, name: &ObjectName) -> Option<&Arc<TableVersion>> {
        if self.composite(name).is_some() {
            return None;
        }
        let table = self.names().existing(name).ok()??.as_table()?;
        table.definition().query.is_none().then_some(table)
    }

    /// A declared type with the schema of what the database has by its name, as it is to be found whatever the search path is.
    pub(crate) fn declared_in_full(&self, declared: &DataType) -> String {
        if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, None)) = declared {
            return self.declared_in_full(item) + "[]";
        }
        let found = match declared {
            DataType::Custom(name, arguments) if arguments.is_empty() => {
                let own = self.type_named(parts(name), |object| {
                    crate::catalog::system::type_identity(object).map(|(_, schema, name)| (schema.into(), name.into()))
                });
                own.or_else(|| {
                    let table = self.row_type_table(name)?.definition();
                    Some((table.schema_name.clone(), table.name.clone()))
                })
            }
            _ => None,
        };
        match found {
            Some((schema, name)) if PgTypePlanner.plan_type_field(declared).is_err() => {
                let (schema, name): (String, String) = (schema, name);
                format!("{}.{}", quote::name(&schema), quote::name(&name))
            }
            _ => declared.to_string(),
        }
    }

    /// The oids of the type of a table's rows and of that of their arrays. What they stand for is known from here on.
    pub(crate) fn row_type_oids(&self, name: &ObjectName) -> Option<[u32; 2]> {
        let oid = self.row_type_table(name)?.oid();
        let field = self.field_of_type(&DataType::Custom(name.clone(), Vec::new())).ok()?;
        let has_type = matches!(SqlType::from_field(&field)?, SqlType::Composite(of) if of.oid() == oid);
        has_type.then(|| [oid, array_of_rows(oid)])
    }

    /// The field of a type: 42704 where nothing has that name.
    pub(crate) fn field_of_type(&self, declared: &DataType) -> Result<Field> {
        let unknown = match crate::pg::types::planner::field_of(declared) {
            Err(error) if error.state == state::UNDEFINED_OBJECT => error,
            known => return known,
        };
        if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) =
            declared
        {
            // Only a value itself says its composite type: types of arrays and records are compared without.
            let field = self.field_of_type(item)?.with_name("item");
            match SqlType::from_field(&field) {
                Some(of) if of.is_range() => return Ok(SqlType::Array(ArrayType::of_items(of)).field("", true)),
                Some(of @ SqlType::Composite(_)) => {
                    return Ok(SqlType::Array(ArrayType::of_items(of)).field("", true));
                }
                Some(SqlType::Array(of)) if matches!(of.element(), SqlType::Composite(_)) => {
                    return Ok(SqlType::Array(of.with_dimensions(of.dimensions() + 1)).field("", true));
                }
                _ => {}
            }
            let metadata = match field.data_type() {
                Arrow::Struct(_) => self.array_of_record(item),
                Arrow::List(_) => field.metadata().get(OID_KEY).cloned(),
                _ => None,
            };
            let metadata = metadata.map(|oid| (OID_KEY.to_string(), oid));
            let list = Field::new("", Arrow::List(Arc::new(within(field))), true);
            return Ok(list.with_metadata(metadata.into_iter().collect()));
        }
        if let DataType::Custom(name, arguments) = declared
            && arguments.is_empty()
            && let Some(of) = self.enum_named(name)
        {
            return Ok(SqlType::Enum(of).field("", true));
        }
        if let DataType::Custom(name, arguments) = declared
            && arguments.is_empty()
            && let Some(of) = self.range_named(name)
        {
            return Ok(of.field("", true));
        }
        if let Some(domain) = self.domain_of(declared) {
            return Ok(domain.base.field("", true));
        }
        let columns = self.columns_of_type(declared).ok_or(unknown)?;
        let mut domains = Vec::with_capacity(columns.len());
        let fields = columns.into_iter().map(|(name, declared)| {
            let declared = parsed(&declared)?;
            domains.push(self.domain_of(&declared).map(|domain| domain.oid));
            Ok(self.field_of_type(&declared)?.with_name(name))
        });
        let fields = fields.collect::<Result<Vec<Field>>>()?;
        if let DataType::Custom(name, _) = declared
            && let Some(attributes) = attributes(&fields, &domains, |at| match self.composite(name) {
                Some(composite) => composite.number(at),
                None => at as u32 + 1,
            })
        {
            let of = match (self.composite(name), self.row_type_table(name)) {
                (Some(own), _) => Some((own.oid, own.array_oid, own.schema_name.clone(), own.name.clone())),
                (None, Some(table)) => {
                    let (oid, own) = (table.oid(), table.definition());
                    Some((oid, array_of_rows(oid), own.schema_name.clone(), own.name.clone()))
                }
                (None, None) => None,
            };
            if let Some((oid, array_oid, schema, name)) = of {
                let of = CompositeType::of(oid, array_oid, &schema, &name, attributes);
                return Ok(SqlType::Composite(of).field("", true));
            }
        }
        let oid = self.oid_of_record(declared);
        let metadata = oid.map(|oid| (OID_KEY.to_string(), oid.to_string()));
        let array = self.array_of_record(declared);
        let metadata = metadata
            .into_iter()
            .chain(array.map(|oid| (ARRAY_OID_KEY.to_string(), oid)));
        let fields: Fields = fields.into_iter().map(within).collect();
        Ok(Field::new("", Arrow::Struct(fields), true).with_metadata(metadata.collect()))
    }

    /// The oid of the type of a composite type's arrays.
    pub(super) fn array_of_record(&self, declared: &DataType) -> Option<String> {
        let DataType::Custom(name, _) = declared else {
            return None;
        };
        if let Some(table) = self.row_type_table(name) {
            return Some(array_of_rows(table.oid()).to_string());
        }
        let of = self.composite(name).filter(|of| of.array_oid != 0)?;
        Some(of.array_oid.to_string())
    }

    /// The field of an enum type as the snapshot has it, or of its arrays, by an oid.
    pub(crate) fn enum_of_oid(&self, oid: u32) -> Option<Field> {
        let mut own = self.snapshot.objects().values().filter_map(enum_of);
        let of = own.find(|of| of.oid == oid || of.array_oid == oid)?;
        let one = SqlType::Enum(of);
        Some(match of.oid == oid {
            true => one.field("", true),
            false => SqlType::Array(ArrayType::of_items(one)).field("", true),
        })
    }

    /// The field of a composite type, or of its arrays, by an oid.
    pub(crate) fn composite_of_oid(&self, oid: u32) -> Option<Field> {
        let of = self.snapshot.objects().values().find_map(|object| match object {
            Object::Composite(of) if of.oid == oid || of.array_oid == oid => Some(of.clone()),
            _ => None,
        });
        let (own, schema, name) = match &of {
            Some(of) => (of.oid, &of.schema_name, &of.name),
            None => {
                let table = self.snapshot.table_by_oid(of_rows_of_array(oid).unwrap_or(oid))?;
                (table.oid(), &table.definition().schema_name, &table.definition().name)
            }
        };
        let array = if own == oid { "" } else { "[]" };
        let (schema, name) = (quote::name(schema), quote::name(name));
        self.field_of_type(&parsed(&format!("{schema}.{name}{array}")).ok()?)
            .ok()
    }

    /// The oid of a composite type, or of a relation's rows.
    pub(crate) fn oid_of_record(&self, declared: &DataType) -> Option<u32> {
        let DataType::Custom(name, _) = declared else {
            return None;
        };
        match self.composite(name) {
            Some(of) => Some(of.oid),
            None => Some(self.names().existing(name).ok()??.oid()),
        }
    }
}

/// The columns of a composite type as columns of tables have it; None where one has a type that no column of a table has.
fn attributes(fields: &[Field], domains: &[Option<u32>], number: impl Fn(usize) -> u32) -> Option<Vec<Attribute>> {
    let attributes = fields.iter().enumerate().map(|(at, field)| {
        let sql_type = SqlType::from_field(field).filter(|of| of.data_type() == *field.data_type())?;
        Some(Attribute {
            number: number(at),
            name: field.name().clone(),
            sql_type,
            domain: domains[at],
        })
    });
    attributes.collect()
}

/// The type of a table's column, as a statement may name it whatever its search path is.
fn declared_as(column: &ColumnDef) -> String {
    match &column.domain {
        Some((schema, name)) => format!("{}.{}", quote::name(schema), quote::name(name)),
        None => named_in_full(column.sql_type),
    }
}

/// A type as a statement may name it whatever its search path is.
pub(crate) fn named_in_full(of: SqlType) -> String {
    let (schema, name) = match of {
        SqlType::Array(of) => return named_in_full(of.element()) + &"[]".repeat(of.dimensions()),
        SqlType::Composite(of) => (of.schema_name(), of.name()),
        SqlType::Enum(of) => (of.schema_name.as_str(), of.name.as_str()),
        // Wherever the snapshot has it.
        SqlType::Range(RangeType::User(of)) => return quote::name(&format!("{OF_OID}{}", of.oid)),
        SqlType::Multirange(RangeType::User(of)) => return quote::name(&format!("{OF_OID}{}", of.multirange_oid)),
        other => return other.sql_name(),
    };
    format!("{}.{}", quote::name(schema), quote::name(name))
}

/// The types of the system, and those that the snapshot has.
#[derive(Debug)]
pub(super) struct TypesOf(pub Binder);

impl std::fmt::Debug for Binder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Binder")
    }
}

impl TypePlanner for TypesOf {
    fn plan_type_field(&self, declared: &DataType) -> datafusion::error::Result<Option<FieldRef>> {
        let field = self.0.field_of_type(declared).map_err(to_datafusion)?;
        Ok(Some(Arc::new(field.with_name(WRITTEN))))
    }
}

pub(crate) fn enum_of(object: &Object) -> Option<&'static EnumType> {
    match object {
        Object::Enum(of) => Some(of),
        _ => None,
    }
}
