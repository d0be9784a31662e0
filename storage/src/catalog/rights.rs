//! Who owns what, and who may do what with it.
//!
//! Rights stand beside the objects, by oid: what has none belongs to the first superuser, and may be used as PostgreSQL's
//! defaults say. So databases in which no role was ever created hold nothing of this.

use super::objects::{Object, ObjectKey};
use super::privilege::*;
use super::roles::{BOOTSTRAP, DATABASE_OWNER, EVERYBODY, READ_ALL_DATA, WRITE_ALL_DATA};
pub use super::state::PUBLIC_OID;
use super::state::{DatabaseState, Relation};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The one database, as `pg_database` numbers it.
pub const DATABASE_OID: u32 = 5;

/// What rights are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Secured {
    /// A table, a view or a partition.
    Table,
    Column,
    Sequence,
    Schema,
    Function,
    Type,
    Database,
}

impl Secured {
    /// The rights that there are on it.
    pub fn rights(self) -> u32 {
        match self {
            Secured::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            Secured::Column => INSERT | SELECT | UPDATE | REFERENCES,
            Secured::Sequence => SELECT | UPDATE | USAGE,
            Secured::Schema => USAGE | CREATE,
            Secured::Function => EXECUTE,
            Secured::Type => USAGE,
            Secured::Database => CREATE | TEMPORARY | CONNECT,
        }
    }

    /// Those that everybody has on it from the beginning.
    fn of_everybody(self) -> u32 {
        match self {
            Secured::Table | Secured::Column | Secured::Sequence | Secured::Schema => 0,
            Secured::Function => EXECUTE,
            Secured::Type => USAGE,
            Secured::Database => TEMPORARY | CONNECT,
        }
    }

    pub fn of_relation(relation: &Relation) -> Secured {
        match relation {
            Relation::Sequence(_) => Secured::Sequence,
            Relation::Table(_) | Relation::View(_) | Relation::Partition(_) => Secured::Table,
        }
    }

    /// As `pg_default_acl` calls it.
    pub fn letter(self) -> char {
        match self {
            Secured::Table | Secured::Column => 'r',
            Secured::Sequence => 'S',
            Secured::Schema => 'n',
            Secured::Function => 'f',
            Secured::Type => 'T',
            Secured::Database => 'd',
        }
    }
}

/// What one role has given another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub grantee: u32,
    pub grantor: u32,
    pub rights: u32,
    /// Those of them that the grantee may give to others.
    pub grantable: u32,
}

/// Whose something is, and what is granted on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub owner: u32,
    /// None: as it is from the beginning.
    pub grants: Option<Vec<Grant>>,
    /// Of columns, by name.
    pub columns: Vec<(String, Vec<Grant>)>,
}

impl Rights {
    pub fn of_owner(owner: u32) -> Self {
        Self {
            owner,
            grants: None,
            columns: Vec::new(),
        }
    }

    /// Whether it says no more than having none does.
    fn is_plain(&self, oid: u32) -> bool {
        self.owner == owner_at_first(oid) && self.grants.is_none() && self.columns.is_empty()
    }

    pub fn roles(&self) -> impl Iterator<Item = u32> {
        let columns = self.columns.iter().flat_map(|(_, grants)| grants);
        let all = self.grants.iter().flatten().chain(columns);
        all.flat_map(|grant| [grant.grantee, grant.grantor])
    }
}

fn owner_at_first(oid: u32) -> u32 {
    match oid {
        PUBLIC_OID => DATABASE_OWNER,
        _ => BOOTSTRAP,
    }
}

/// What is granted where nobody has granted anything.
pub fn grants_at_first(kind: Secured, oid: u32, owner: u32) -> Vec<Grant> {
    let of_everybody = match oid {
        PUBLIC_OID => USAGE,
        _ => kind.of_everybody(),
    };
    let grant = |grantee, rights| Grant {
        grantee,
        grantor: owner,
        rights,
        grantable: 0,
    };
    let mut grants = vec![grant(owner, kind.rights())];
    match of_everybody {
        0 => {}
        // As it is shown there.
        _ if oid == PUBLIC_OID => grants.push(grant(EVERYBODY, of_everybody)),
        _ => grants.insert(0, grant(EVERYBODY, of_everybody)),
    }
    grants
}

/// ALTER DEFAULT PRIVILEGES: what is granted on what a role will create, in one schema (added to what is granted anyway) or
/// anywhere (in its place).
pub type DefaultGrants = Vec<Grant>;

impl DatabaseState {
    pub fn rights(&self, oid: u32) -> Option<&Arc<Rights>> {
        match self.objects.get(&ObjectKey::Rights { oid })? {
            Object::Rights(rights) => Some(rights),
            _ => None,
        }
    }

    pub fn all_rights(&self) -> impl Iterator<Item = (u32, &Arc<Rights>)> {
        let first = ObjectKey::Rights { oid: 0 };
        let last = ObjectKey::Rights { oid: u32::MAX };
        self.objects
            .range(first..=last)
            .filter_map(|(key, object)| match (key, object) {
                (ObjectKey::Rights { oid }, Object::Rights(rights)) => Some((*oid, rights)),
                _ => None,
            })
    }

    pub fn owner(&self, oid: u32) -> u32 {
        self.rights(oid)
            .map_or_else(|| owner_at_first(oid), |rights| rights.owner)
    }

    /// All that is granted on something.
    pub fn grants(&self, kind: Secured, oid: u32) -> Vec<Grant> {
        let rights = self.rights(oid);
        let own = rights.and_then(|rights| rights.grants.clone());
        own.unwrap_or_else(|| grants_at_first(kind, oid, self.owner(oid)))
    }

    /// Whether a role has the rights of the owner.
    pub fn owns(&self, role: u32, oid: u32) -> bool {
        self.has_rights_of(role, self.owner(oid))
    }

    /// Which of some rights a role has on the whole of something.
    pub fn granted(&self, role: u32, kind: Secured, oid: u32, wanted: u32) -> u32 {
        if self.is_superuser(role) {
            return wanted;
        }
        let of = self.memberships(role, true);
        let grants = self.grants(kind, oid);
        let mine = grants.iter().filter(|grant| applies(grant, &of));
        let mut found = mine.fold(0, |found, grant| found | grant.rights);
        found |= predefined(kind, &of);
        found & wanted
    }

    /// Which of some rights a role may give to others.
    pub fn grantable(&self, role: u32, kind: Secured, oid: u32, column: Option<&str>) -> u32 {
        if self.owns(role, oid) {
            return kind.rights();
        }
        let of = self.memberships(role, true);
        let mut grants = self.grants(kind, oid);
        if let Some(column) = column {
            grants.extend(self.column_grants(oid, column).iter().cloned());
        }
        let mine = grants.iter().filter(|grant| applies(grant, &of));
        mine.fold(0, |found, grant| found | grant.grantable)
    }

    pub fn column_grants(&self, oid: u32, column: &str) -> &[Grant] {
        let columns = self.rights(oid).map_or(&[][..], |rights| &rights.columns);
        let found = columns.iter().find(|(name, _)| name == column);
        found.map_or(&[], |(_, grants)| grants)
    }

    /// Which of some rights a role has on a column, those on its table left out.
    pub fn granted_on_column(&self, role: u32, oid: u32, column: &str, wanted: u32) -> u32 {
        let of = self.memberships(role, true);
        let mine = self
            .column_grants(oid, column)
            .iter()
            .filter(|grant| applies(grant, &of));
        mine.fold(0, |found, grant| found | grant.rights) & wanted
    }

    /// The same of any column.
    pub fn granted_on_any_column(&self, role: u32, oid: u32, wanted: u32) -> u32 {
        let columns = self.rights(oid).map_or(&[][..], |rights| &rights.columns);
        columns.iter().fold(0, |found, (name, _)| {
            found | self.granted_on_column(role, oid, name, wanted)
        })
    }

    /// Default grants: of a role, in a schema (0: in all), for a kind.
    pub fn default_grants(&self, role: u32, schema: u32, kind: Secured) -> Option<&Arc<DefaultGrants>> {
        match self.objects.get(&ObjectKey::DefaultRights { role, schema, kind })? {
            Object::DefaultRights(grants) => Some(grants),
            _ => None,
        }
    }

    pub fn all_default_grants(&self) -> impl Iterator<Item = (u32, u32, Secured, &Arc<DefaultGrants>)> {
        self.objects.iter().filter_map(|(key, object)| match (key, object) {
            (ObjectKey::DefaultRights { role, schema, kind }, Object::DefaultRights(grants)) => {
                Some((*role, *schema, *kind, grants))
            }
            _ => None,
        })
    }

    /// What a role that makes something leaves beside it; None: nothing that differs from having none.
    pub(super) fn rights_of_new(&self, creator: u32, kind: Secured, oid: u32, schema: u32) -> Option<Rights> {
        let mut rights = Rights::of_owner(creator);
        let anywhere = self.default_grants(creator, 0, kind);
        let here = self.default_grants(creator, schema, kind).filter(|_| schema != 0);
        if anywhere.is_some() || here.is_some() {
            let mut grants = match anywhere {
                Some(grants) => (**grants).clone(),
                None => grants_at_first(kind, oid, creator),
            };
            for grant in here.iter().flat_map(|grants| grants.iter()) {
                give(&mut grants, grant);
            }
            rights.grants = Some(grants);
        }
        (!rights.is_plain(oid)).then_some(rights)
    }

    /// Whether an oid is of something that can have rights and is there.
    pub fn is_secured(&self, oid: u32) -> bool {
        oid == DATABASE_OID
            || self.relation_by_oid(oid).is_some()
            || self.schemas().any(|(_, schema)| schema.oid == oid)
            || self
                .objects
                .values()
                .any(|object| object.secured().is_some_and(|(own, _)| own == oid))
    }
}

fn applies(grant: &Grant, of: &[u32]) -> bool {
    grant.grantee == EVERYBODY || of.contains(&grant.grantee)
}

/// What members of the predefined roles may do with everything.
fn predefined(kind: Secured, of: &[u32]) -> u32 {
    let (reads, writes) = (of.contains(&READ_ALL_DATA), of.contains(&WRITE_ALL_DATA));
    match kind {
        Secured::Table | Secured::Sequence => {
            let read = if reads { SELECT } else { 0 };
            let written = if writes { INSERT | UPDATE | DELETE } else { 0 };
            (read | written) & kind.rights()
        }
        Secured::Schema if reads || writes => USAGE,
        _ => 0,
    }
}

/// Adds to what is granted.
pub fn give(grants: &mut Vec<Grant>, new: &Grant) {
    let same = |own: &&mut Grant| own.grantee == new.grantee && own.grantor == new.grantor;
    match grants.iter_mut().find(same) {
        Some(own) => {
            own.rights |= new.rights;
            own.grantable |= new.grantable;
        }
        None => grants.push(new.clone()),
    }
}

/// Takes from what is granted, and with `cascade` what the grantee has passed on; false: something of that stands in the way.
/// `only_options`: the right to pass them on alone.
pub fn take(grants: &mut Vec<Grant>, gone: &Grant, only_options: bool, cascade: bool) -> bool {
    let same = |own: &&mut Grant| own.grantee == gone.grantee && own.grantor == gone.grantor;
    let Some(own) = grants.iter_mut().find(same) else {
        return true;
    };
    let options = own.grantable & gone.rights;
    own.grantable &= !gone.rights;
    if !only_options {
        own.rights &= !gone.rights;
    }
    grants.retain(|own| own.rights != 0);
    // Somebody else may have given the same right to pass it on.
    let still = grants.iter().filter(|own| own.grantee == gone.grantee);
    let lost = options & !still.fold(0, |found, own| found | own.grantable);
    if lost == 0 {
        return true;
    }
    let passed = grants
        .iter()
        .filter(|own| own.grantor == gone.grantee && own.rights & lost != 0);
    let passed: Vec<Grant> = passed
        .map(|own| Grant {
            rights: own.rights & lost,
            ..own.clone()
        })
        .collect();
    if !cascade {
        return passed.is_empty();
    }
    passed.iter().all(|own| take(grants, own, false, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(grantor: u32, grantee: u32, rights: u32, grantable: u32) -> Grant {
        Grant {
            grantee,
            grantor,
            rights,
            grantable,
        }
    }

    #[test]
    fn what_was_passed_on_goes_with_its_source() {
        let mut grants = vec![grant(10, 20, SELECT | INSERT, SELECT), grant(20, 30, SELECT, 0)];
        let gone = grant(10, 20, SELECT, 0);
        assert!(!take(&mut grants.clone(), &gone, false, false));
        assert!(take(&mut grants, &gone, false, true));
        assert_eq!(grants, [grant(10, 20, INSERT, 0)]);
    }

    #[test]
    fn grants_of_one_grantor_are_one() {
        let mut grants = vec![];
        give(&mut grants, &grant(10, 20, SELECT, 0));
        give(&mut grants, &grant(10, 20, INSERT, INSERT));
        assert_eq!(grants, [grant(10, 20, SELECT | INSERT, INSERT)]);
        assert!(take(&mut grants, &grant(10, 20, INSERT, 0), true, false));
        assert_eq!(grants, [grant(10, 20, SELECT | INSERT, 0)]);
    }
}
