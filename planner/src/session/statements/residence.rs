//! ALTER TABLE ... SET (tenon.device = ...): whether a table's columns are kept in the GPU's memory.

use crate::catalog::bind::Target;
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use tenon_storage::{DeviceResidence, Relation};

/// SET or RESET of `tenon.device`.
pub(super) fn set(
    session: &mut Session,
    relation: &Relation,
    place: &Target,
    parameter: &str,
    value: Option<&str>,
) -> Result<()> {
    let invalid = |message: String| SqlError::new(state::INVALID_PARAMETER_VALUE, message);
    if parameter != "device" {
        return Err(invalid(format!("unrecognized parameter \"tenon.{parameter}\"")));
    }
    if relation.as_table().is_none() {
        let message = format!("\"{}\" is not a table", relation.name());
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
    }
    let device = match value {
        None => None,
        Some(value) => {
            let known = DeviceResidence::NAMES.iter().find(|(name, _)| *name == value);
            let (_, device) = known.ok_or_else(|| {
                invalid("invalid value for enum option \"tenon.device\"".into())
                    .detail("Valid values are \"auto\", \"resident\", and \"never\".")
            })?;
            Some(*device)
        }
    };
    let transaction = session.transaction()?;
    let table = transaction.lock().set_device(&place.schema, &place.name, device)?;
    tenon_executor::pipeline::reside(&table);
    Ok(())
}
