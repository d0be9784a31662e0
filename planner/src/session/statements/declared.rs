//! Columns as they are declared: type, default, constraints, a sequence of their own.

use super::{constraints, defaults, keys, qualify, sequence};
use crate::catalog::bind::{Target, fold, parts};
use crate::pg::collations;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::SequenceOptions;
use crate::pg::parse::identity;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{self, CheckConstraint, ColumnOption, ForeignKeyConstraint, Ident, ObjectName};
use tenon_storage::{
    ColumnDef, Deferral, Generated, IndexDef, IndexShown, SequenceDef, SequenceOwner, SqlType, TableVersion, quote,
};

/// A sequence that a column is declared with: serial or an identity.
pub(super) struct OwnSequence {
    pub column: String,
    pub name: String,
    pub def: SequenceDef,
    pub identity: bool,
}

impl OwnSequence {
    pub(super) fn create(self, session: &Session, table: &TableVersion) -> Result<()> {
        let owner = SequenceOwner {
            table_oid: table.oid(),
            column: self.column,
            identity: self.identity,
        };
        let schema = &table.definition().schema_name;
        session
            .transaction()?
            .lock()
            .create_sequence(schema, &self.name, self.def, Some(owner))?;
        Ok(())
    }
}

/// The constraints that a column is declared with.
#[derive(Default)]
pub(super) struct Declared {
    pub primary_key: bool,
    pub primary_key_name: Option<String>,
    pub key_deferral: Deferral,
    pub key_shown: IndexShown,
    pub unique: Option<IndexDef>,
    pub unique_deferral: Deferral,
    pub checks: Vec<(Option<Ident>, CheckConstraint)>,
    pub foreign_keys: Vec<ForeignKeyConstraint>,
    pub sequence: Option<OwnSequence>,
}

/// A column of a table that is, or will be, at `place`.
pub(super) fn column_definition(
    session: &mut Session,
    column: &ast::ColumnDef,
    place: &Target,
) -> Result<(ColumnDef, Declared)> {
    let name = fold(&column.name);
    session.binder().check_schema_of_type(&column.data_type)?;
    let mut declared = Declared::default();
    let serial = match &column.data_type {
        ast::DataType::Custom(own, _) => sequence::serial_type(&super::last(own)),
        _ => None,
    };
    let domain = session.binder().domain_of(&column.data_type);
    let own_type = match (serial, &domain) {
        (Some(serial), _) => serial,
        (None, Some(domain)) => domain.base,
        (None, None) => session.binder().sql_type(&column.data_type)?,
    };
    let mut out = ColumnDef::new(name, own_type);
    out.domain = domain.map(|domain| (domain.schema_name.clone(), domain.name.clone()));
    if serial.is_some() {
        let own = own_sequence(session, place, &out, &SequenceOptions::default(), false)?;
        let sequence = quoted_name(place, &own.name);
        out.default = Some(format!("nextval({}::regclass)", quote::literal(&sequence)));
        out.not_null = true;
        declared.sequence = Some(own);
    }
    let mut is_null = false;
    for (at, option) in column.options.iter().enumerate() {
        match &option.option {
            ColumnOption::Null if serial.is_none() && out.generated.is_none() => is_null = true,
            ColumnOption::Null => return Err(conflicting_null(&out.name, place)),
            ColumnOption::NotNull => out.not_null = true,
            ColumnOption::Default(expr) => {
                if out.default.is_some() {
                    let message = format!(
                        "multiple default values specified for column \"{}\" of table \"{}\"",
                        out.name, place.name
                    );
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                out.default = defaults::given(session, expr, &out)?;
            }
            ColumnOption::PrimaryKey(key) => {
                declared.key_deferral = keys::deferral(key.characteristics.as_ref())?;
                declared.primary_key = true;
                declared.primary_key_name = option.name.as_ref().map(fold);
            }
            ColumnOption::ForeignKey(key) => declared.foreign_keys.push(ForeignKeyConstraint {
                name: option.name.clone(),
                columns: vec![column.name.clone()],
                ..key.clone()
            }),
            ColumnOption::Unique(unique) => {
                declared.unique_deferral = keys::deferral(unique.characteristics.as_ref())?;
                let name = option.name.as_ref().map(fold);
                declared.unique = Some(constraints::unique_index(vec![out.name.clone()], name));
            }
            ColumnOption::Check(check) => declared.checks.push((option.name.clone(), check.clone())),
            ColumnOption::Collation(name) if identity::sequence_named(name).is_none() => {
                out.collation = collation(name, own_type)?;
            }
            ColumnOption::Comment(text) => {
                if let Some(options) = constraints::parameters(text)? {
                    // Of the key that it stands behind.
                    let before = column.options[..at].iter().rev();
                    let mut keys = before.filter(|own| is_key(&own.option));
                    match (keys.next().map(|own| &own.option), &mut declared.unique) {
                        (Some(ColumnOption::Unique(_)), Some(unique)) => unique.shown.options = options,
                        _ => declared.key_shown.options = options,
                    }
                }
            }
            ColumnOption::Collation(_) => {}
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr,
                ..
            } => {
                let what = if generation_expr.is_some() {
                    "generation expression"
                } else {
                    "identity"
                };
                match (out.generated, &out.default) {
                    (Some(Generated::Stored), _) if generation_expr.is_some() => {
                        let message = format!(
                            "multiple generation clauses specified for column \"{}\" of table \"{}\"",
                            out.name, place.name
                        );
                        return Err(SqlError::new(state::SYNTAX_ERROR, message));
                    }
                    (Some(_), _) if generation_expr.is_none() && out.default.is_none() => {
                        let message = format!(
                            "multiple identity specifications for column \"{}\" of table \"{}\"",
                            out.name, place.name
                        );
                        return Err(SqlError::new(state::SYNTAX_ERROR, message));
                    }
                    (None, None) => {}
                    _ => return Err(both(&out, place, what)),
                }
                match generation_expr {
                    Some(expr) => {
                        let expr = constraints::unqualified(expr.clone(), &place.schema, &place.name);
                        out.default = Some(qualify::expression(&session.binder(), &expr)?.to_string());
                        out.generated = Some(Generated::Stored);
                    }
                    None => {
                        if !matches!(own_type, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
                            let message = "identity column type must be smallint, integer, or bigint";
                            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
                        }
                        let mut options = SequenceOptions::of_identity(sequence_options.as_deref().unwrap_or_default());
                        options.name = column.options.iter().find_map(|option| match &option.option {
                            ColumnOption::Collation(name) => identity::sequence_named(name),
                            _ => None,
                        });
                        declared.sequence = Some(own_sequence(session, place, &out, &options, true)?);
                        out.not_null = true;
                        out.generated = Some(match generated_as {
                            ast::GeneratedAs::ByDefault => Generated::ByDefault,
                            _ => Generated::Always,
                        });
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("column option {other}"))),
        }
        if out.generated.is_some() && out.generated != Some(Generated::Stored) && out.default.is_some() {
            return Err(both(&out, place, "identity"));
        }
    }
    if is_null && (out.not_null || declared.primary_key) {
        return Err(conflicting_null(&out.name, place));
    }
    Ok((out, declared))
}

fn is_key(option: &ColumnOption) -> bool {
    matches!(option, ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_))
}

fn conflicting_null(column: &str, place: &Target) -> SqlError {
    let message = format!(
        "conflicting NULL/NOT NULL declarations for column \"{column}\" of table \"{}\"",
        place.name
    );
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// 42601 for a column with two sources of values.
fn both(column: &ColumnDef, place: &Target, what: &str) -> SqlError {
    let first = match column.generated {
        Some(Generated::Stored) if what == "identity" => "identity and generation expression",
        Some(Generated::Always | Generated::ByDefault) if what != "identity" => "identity and generation expression",
        _ if what == "identity" => "default and identity",
        _ => "default and generation expression",
    };
    let message = format!(
        "both {first} specified for column \"{}\" of table \"{}\"",
        column.name, place.name
    );
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// The sequence of a serial or identity column.
pub(super) fn own_sequence(
    session: &Session,
    place: &Target,
    column: &ColumnDef,
    options: &SequenceOptions,
    identity: bool,
) -> Result<OwnSequence> {
    let mut options = options.clone();
    let word = column.sql_type.base_name();
    options.data_type = Some(parse_type(word)?);
    let name = match options.name.take().map(|name| parts(&name)).as_deref() {
        None => sequence::free_name(session, &place.schema, &place.name, &column.name),
        Some([name]) => name.clone(),
        Some([.., schema, name]) if *schema == place.schema => name.clone(),
        Some(_) => {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
    };
    Ok(OwnSequence {
        column: column.name.clone(),
        name,
        def: sequence::definition(&options, None)?.0,
        identity,
    })
}

fn parse_type(word: &str) -> Result<ast::DataType> {
    Ok(match word.parse::<SqlType>()? {
        SqlType::Int2 => ast::DataType::SmallInt(None),
        SqlType::Int4 => ast::DataType::Integer(None),
        _ => ast::DataType::BigInt(None),
    })
}

/// A name in a schema, as a string that names it says it.
pub(super) fn quoted_name(place: &Target, name: &str) -> String {
    format!("{}.{}", quote::identifier(&place.schema), quote::identifier(name))
}

/// The collation of a column, where it is not that of its type; 42804 where the type has none.
pub(super) fn collation(name: &ObjectName, of: SqlType) -> Result<Option<String>> {
    let found = collations::named(name)?;
    if !of.is_collated() {
        let message = format!("collations are not supported by type {}", of.base_name());
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    let own = match of {
        SqlType::Name => "C",
        _ => collations::DEFAULT,
    };
    Ok((found.name != own).then(|| found.name.to_string()))
}
