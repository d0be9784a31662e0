//! Settings that sessions begin with: those that ALTER ROLE and ALTER DATABASE keep.

use super::objects::{Object, ObjectKey};
use super::state::DatabaseState;
use std::sync::Arc;

/// Names with their values as they were given, in the order in which they came.
pub type KeptSettings = Vec<(String, String)>;

/// In the place of a role or a database: all of them.
pub const ANY: u32 = 0;

impl DatabaseState {
    /// Those of a role's sessions in a database.
    pub fn kept_settings(&self, role: u32, database: u32) -> &[(String, String)] {
        match self.objects.get(&ObjectKey::Settings { role, database }) {
            Some(Object::Settings(settings)) => settings,
            _ => &[],
        }
    }

    /// All that are kept, with their roles and databases.
    pub fn all_kept_settings(&self) -> impl Iterator<Item = (u32, u32, &Arc<KeptSettings>)> {
        let first = ObjectKey::Settings { role: 0, database: 0 };
        self.objects
            .range(first..)
            .filter_map(|(key, object)| match (key, object) {
                (ObjectKey::Settings { role, database }, Object::Settings(settings)) => {
                    Some((*role, *database, settings))
                }
                _ => None,
            })
    }
}
