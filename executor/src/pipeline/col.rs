//! A column of the row that a pipeline has at hand.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::aggregated::Aggregated;
use super::on_host::OnHost;
use super::passes::ScanColumn;
use crate::codegen::{Given, Translated, c_type};

/// Its value, and what is known of it.
#[derive(Clone)]
pub struct Col {
    pub given: Given,
    /// The scan and its column that this is of.
    pub origin: Option<(usize, usize)>,
    /// Of a scan's column: C++ of the row's position in that scan's table.
    pub position: Option<String>,
    /// Whether no two rows have it, unless rows come more than once.
    pub unique: bool,
    /// Of an aggregate's value: what it is of.
    pub aggregated: Option<Arc<Aggregated>>,
    /// The scan's column that has all of its values.
    pub equals: Option<ScanColumn>,
    /// How the host makes it of others where it reads it.
    pub on_host: Option<Arc<OnHost>>,
}

impl Col {
    /// A value that is no table's column.
    pub fn computed(given: Given) -> Self {
        Self {
            given,
            origin: None,
            position: None,
            unique: false,
            aggregated: None,
            equals: None,
            on_host: None,
        }
    }

    /// The same column where the row has none.
    pub fn nothing(&self) -> Translated<Self> {
        let (own, null) = (&self.given, Some("true".to_string()));
        let given = match &own.texts {
            _ if own.is_unread() => Given::unread(own.data_type.clone(), null),
            Some(texts) => Given::coded(Arc::clone(texts), "0u".into(), null),
            None => {
                let load = format!("{}()", c_type(&own.data_type)?);
                Given::new(own.data_type.clone(), load, null, own.range.map(|_| (0, 0)))
            }
        };
        Ok(Self {
            origin: self.origin,
            position: self.position.as_ref().map(|_| "0u".into()),
            ..Self::computed(given)
        })
    }

    /// A column that nothing reads.
    pub fn unread(data_type: &DataType) -> Self {
        Self::computed(Given::unread(data_type.clone(), None))
    }

    /// A column whose values are of a type that the device knows nothing of: of these it has the positions of their rows, by
    /// which the host finds them.
    pub fn handed_on(data_type: &DataType, origin: (usize, usize), position: String) -> Self {
        Self {
            origin: Some(origin),
            position: Some(position),
            ..Self::unread(data_type)
        }
    }
}
