//! The catalog as it is written: the whole of it in a checkpoint (`Image`), what a commit changed of it in the log (`Delta`).
//! Rows stand in both as the numbers of their segments, and of those that are gone.

use super::is_kept;
use super::record::RecordLocation;
use super::rows_change::{RowsChange, SegmentImage, images};
use crate::catalog::sequence::{CounterId, SequenceLog};
use crate::catalog::{
    CheckOption, Composite, DatabaseState, DefaultGrants, Difference, Domain, Function, KeptSettings, Object,
    ObjectKey, Partition, Relation, Rights, Role, SchemaEntry, Sequence, SequenceDef, SequenceOwner, TableDefinition,
    TableVersion, View,
};
use crate::enum_type::EnumType;
use crate::error::{Result, StorageError};
use crate::range::UserRange;
use crate::segment::Segment;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum RelationImage {
    Table {
        definition: Arc<TableDefinition>,
        segments: Vec<SegmentImage>,
    },
    View(ViewImage),
    Sequence(SequenceImage),
    Partition(Partition),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ViewImage {
    oid: u32,
    schema_name: String,
    name: String,
    sql: String,
    /// As an Arrow IPC stream without rows.
    columns: Vec<u8>,
    check_option: CheckOption,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<(String, String)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SequenceImage {
    oid: u32,
    schema_name: String,
    name: String,
    def: SequenceDef,
    owner: Option<SequenceOwner>,
    pub value: i64,
    pub is_called: bool,
    /// Of the counter: for the process that writes the image.
    #[serde(skip)]
    generation: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ObjectImage {
    Domain(Arc<Domain>),
    Composite(Arc<Composite>),
    Enum(#[serde(with = "crate::enum_type::stored")] &'static EnumType),
    Range(#[serde(with = "crate::range::stored")] &'static UserRange, bool),
    Function(Arc<Function>),
    Role(Arc<Role>),
    Comment(Arc<str>),
    Rights(Arc<Rights>),
    DefaultRights(Arc<DefaultGrants>),
    Settings(Arc<KeptSettings>),
}

/// What a commit changed. Objects come first, and enums among them: what follows names their versions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Delta {
    objects: Vec<(ObjectKey, ObjectImage)>,
    objects_gone: Vec<ObjectKey>,
    schemas: Vec<(String, u32)>,
    schemas_gone: Vec<String>,
    relations: Vec<RelationImage>,
    pub relations_gone: Vec<u32>,
    rows: Vec<RowsChange>,
    /// Where segments lie that are named here and were written to an earlier log, before the transaction ended: a checkpoint
    /// in between knows nothing of them.
    pub places: Vec<(u64, RecordLocation)>,
    next_oid: u32,
}

/// The whole catalog.
#[derive(Debug, Default)]
pub(super) struct Image {
    objects: BTreeMap<ObjectKey, ObjectImage>,
    schemas: BTreeMap<String, u32>,
    relations: BTreeMap<u32, RelationImage>,
    pub next_oid: u32,
}

impl RelationImage {
    fn of(relation: &Relation) -> Result<RelationImage> {
        Ok(match relation {
            Relation::Table(table) => RelationImage::Table {
                definition: table.definition().clone(),
                segments: images(table.segments()),
            },
            Relation::View(view) => RelationImage::View(ViewImage {
                oid: view.oid,
                schema_name: view.schema_name.clone(),
                name: view.name.clone(),
                sql: view.sql.clone(),
                columns: StreamWriter::try_new(Vec::new(), &view.schema)?.into_inner()?,
                check_option: view.check_option,
                options: view.options.clone(),
            }),
            Relation::Sequence(sequence) => {
                let counter = sequence.written();
                RelationImage::Sequence(SequenceImage {
                    oid: sequence.oid,
                    schema_name: sequence.schema_name.clone(),
                    name: sequence.name.clone(),
                    def: sequence.def.clone(),
                    owner: sequence.owner.clone(),
                    value: counter.last_value,
                    is_called: counter.is_called,
                    generation: counter.generation,
                })
            }
            Relation::Partition(partition) => RelationImage::Partition((**partition).clone()),
        })
    }

    fn oid(&self) -> u32 {
        match self {
            RelationImage::Table { definition, .. } => definition.oid,
            RelationImage::View(view) => view.oid,
            RelationImage::Sequence(sequence) => sequence.oid,
            RelationImage::Partition(partition) => partition.oid,
        }
    }
}

impl ObjectImage {
    fn of(object: &Object) -> ObjectImage {
        match object {
            Object::Domain(own) => ObjectImage::Domain(own.clone()),
            Object::Composite(own) => ObjectImage::Composite(own.clone()),
            Object::Enum(own) => ObjectImage::Enum(own),
            Object::Range(own, multi) => ObjectImage::Range(own, *multi),
            Object::Function(own) => ObjectImage::Function(own.clone()),
            Object::Role(own) => ObjectImage::Role(own.clone()),
            Object::Comment(own) => ObjectImage::Comment(own.clone()),
            Object::Rights(own) => ObjectImage::Rights(own.clone()),
            Object::DefaultRights(own) => ObjectImage::DefaultRights(own.clone()),
            Object::Settings(own) => ObjectImage::Settings(own.clone()),
        }
    }

    fn object(self) -> Object {
        match self {
            ObjectImage::Domain(own) => Object::Domain(own),
            ObjectImage::Composite(own) => Object::Composite(own),
            ObjectImage::Enum(own) => Object::Enum(own),
            ObjectImage::Range(own, multi) => Object::Range(own, multi),
            ObjectImage::Function(own) => Object::Function(own),
            ObjectImage::Role(own) => Object::Role(own),
            ObjectImage::Comment(own) => Object::Comment(own),
            ObjectImage::Rights(own) => Object::Rights(own),
            ObjectImage::DefaultRights(own) => Object::DefaultRights(own),
            ObjectImage::Settings(own) => Object::Settings(own),
        }
    }
}

impl Delta {
    /// What leads from one state to the next.
    pub(super) fn between(old: &DatabaseState, new: &DatabaseState, next_oid: u32) -> Result<Delta> {
        let mut delta = Delta {
            next_oid,
            ..Delta::default()
        };
        for difference in old.objects.diff(&new.objects) {
            match difference {
                DiffItem::Add(key, object) | DiffItem::Update { new: (key, object), .. } => {
                    delta.objects.push((key.clone(), ObjectImage::of(object)));
                }
                DiffItem::Remove(key, _) => delta.objects_gone.push(key.clone()),
            }
        }
        // What names an enum's version, or the oid of a type of ranges, is read behind it.
        delta
            .objects
            .sort_by_key(|(_, object)| !matches!(object, ObjectImage::Enum(_) | ObjectImage::Range(..)));
        let mut before: HashMap<u32, &Relation> = HashMap::new();
        let mut after: Vec<&Relation> = Vec::new();
        let none = SchemaEntry::new(0);
        for (name, then) in old.schemas().filter(|(name, _)| is_kept(name)) {
            let now = match new.schema(name) {
                Some(now) if Arc::ptr_eq(now, then) => continue,
                Some(now) => now,
                None => {
                    delta.schemas_gone.push(name.to_string());
                    &none
                }
            };
            if now.oid != then.oid && new.schema(name).is_some() {
                delta.schemas.push((name.to_string(), now.oid));
            }
            for difference in then.differences(now) {
                let (then, now) = match difference {
                    Difference::Gone(then) => (Some(then), None),
                    Difference::Changed(then, now) => (Some(then), Some(now)),
                    Difference::New(now) => (None, Some(now)),
                };
                before.extend(then.map(|then| (then.oid(), then)));
                after.extend(now);
            }
        }
        let is_new = |(name, _): &(&str, _)| is_kept(name) && old.schema(name).is_none();
        for (name, schema) in new.schemas().filter(is_new) {
            delta.schemas.push((name.to_string(), schema.oid));
            after.extend(schema.relations());
        }
        for relation in after {
            match (before.remove(&relation.oid()), relation) {
                (Some(Relation::Table(then)), Relation::Table(now)) if then.version() == now.version() => {}
                (Some(Relation::Table(then)), Relation::Table(now))
                    if Arc::ptr_eq(then.definition(), now.definition()) =>
                {
                    delta.rows.push(RowsChange::between(then.segments(), now));
                }
                (Some(Relation::View(then)), Relation::View(now)) if Arc::ptr_eq(then, now) => {}
                (Some(Relation::Sequence(then)), Relation::Sequence(now)) if Arc::ptr_eq(then, now) => {}
                (Some(Relation::Partition(then)), Relation::Partition(now)) if Arc::ptr_eq(then, now) => {}
                _ => delta.relations.push(RelationImage::of(relation)?),
            }
        }
        delta.relations_gone = before.into_keys().collect();
        Ok(delta)
    }

    /// The numbers of the segments that it names.
    pub(super) fn segments(&self) -> impl Iterator<Item = u64> {
        let tables = self.relations.iter().filter_map(|relation| match relation {
            RelationImage::Table { segments, .. } => Some(segments),
            _ => None,
        });
        let rows = self.rows.iter().map(|change| &change.then);
        tables.chain(rows).flatten().map(|segment| segment.id)
    }

    /// The counters of its sequences.
    pub(super) fn counters(&self) -> impl Iterator<Item = CounterId> {
        self.relations.iter().filter_map(|relation| match relation {
            RelationImage::Sequence(sequence) => Some((sequence.oid, sequence.generation)),
            _ => None,
        })
    }

    /// Whether nothing that is kept changed.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.objects_gone.is_empty()
            && self.schemas.is_empty()
            && self.schemas_gone.is_empty()
            && self.relations.is_empty()
            && self.relations_gone.is_empty()
            && self.rows.is_empty()
    }
}

impl Image {
    /// A database in which nothing was made yet.
    pub(super) fn new(next_oid: u32) -> Result<Image> {
        let mut image = Image::default();
        image.apply(Delta::between(
            &DatabaseState::empty(),
            &DatabaseState::default(),
            next_oid,
        )?);
        Ok(image)
    }

    pub(super) fn apply(&mut self, delta: Delta) -> usize {
        for key in &delta.objects_gone {
            self.objects.remove(key);
        }
        self.objects.extend(delta.objects);
        for name in &delta.schemas_gone {
            self.schemas.remove(name);
        }
        self.schemas.extend(delta.schemas);
        for oid in &delta.relations_gone {
            self.relations.remove(oid);
        }
        self.relations
            .extend(delta.relations.into_iter().map(|relation| (relation.oid(), relation)));
        let mut unknown = 0;
        for change in delta.rows {
            let known = match self.relations.get_mut(&change.oid) {
                Some(RelationImage::Table { segments, .. }) => change.apply(segments),
                _ => false,
            };
            unknown += usize::from(!known);
        }
        self.next_oid = self.next_oid.max(delta.next_oid);
        unknown
    }

    /// A sequence goes on from a value.
    pub(super) fn advance(&mut self, oid: u32, value: i64, is_called: bool) {
        // One of a transaction that did not commit is in no image.
        if let Some(RelationImage::Sequence(sequence)) = self.relations.get_mut(&oid) {
            (sequence.value, sequence.is_called) = (value, is_called);
        }
    }

    /// The numbers of all segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = u64> {
        let tables = self.relations.values().filter_map(|relation| match relation {
            RelationImage::Table { segments, .. } => Some(segments),
            _ => None,
        });
        tables.flatten().map(|segment| segment.id)
    }

    pub(super) fn tables(&self) -> usize {
        let is_table = |relation: &&RelationImage| matches!(relation, RelationImage::Table { .. });
        self.relations.values().filter(is_table).count()
    }

    /// The state, where `rows` gives the segments of these numbers of a table.
    pub(super) fn state(
        self,
        log: &Arc<SequenceLog>,
        mut rows: impl FnMut(&Arc<TableDefinition>, &[SegmentImage]) -> Result<Vec<Arc<Segment>>>,
    ) -> Result<DatabaseState> {
        let mut state = DatabaseState::empty();
        for (key, object) in self.objects {
            state.objects.insert(key, object.object());
        }
        for (name, oid) in self.schemas {
            state.schemas.insert(name, Arc::new(SchemaEntry::new(oid)));
        }
        let mut partitions = Vec::new();
        for relation in self.relations.into_values() {
            let relation = match relation {
                RelationImage::Table { definition, segments } => {
                    let definition = Arc::unwrap_or_clone(definition).completed()?;
                    let segments = rows(&definition, &segments)?;
                    Relation::Table(TableVersion::new(definition, segments))
                }
                RelationImage::View(view) => Relation::View(Arc::new(View {
                    oid: view.oid,
                    schema_name: view.schema_name,
                    name: view.name,
                    sql: view.sql,
                    schema: columns(&view.columns)?,
                    check_option: view.check_option,
                    options: view.options,
                })),
                RelationImage::Sequence(own) => {
                    let known = (own.value, own.is_called);
                    let sequence = Sequence::new(own.oid, &own.schema_name, &own.name, own.def, own.owner);
                    let sequence = sequence.with_log(Some(log.clone())).resumed(known);
                    Relation::Sequence(Arc::new(sequence))
                }
                RelationImage::Partition(partition) => {
                    partitions.push(partition);
                    continue;
                }
            };
            put(&mut state, relation)?;
        }
        for partition in partitions {
            let root = state.table_by_oid(partition.root).cloned();
            let root =
                root.ok_or_else(|| StorageError::corrupted(format!("partition {} has no table", partition.name)))?;
            let columns = &root.definition().columns;
            let partition = partition.aligned(columns, root.definition());
            put(&mut state, Relation::Partition(Arc::new(partition)))?;
        }
        state.forget_rights_of_none();
        Ok(state)
    }
}

fn put(state: &mut DatabaseState, relation: Relation) -> Result<()> {
    let name = format!("{}.{}", relation.schema_name(), relation.name());
    match state.put(relation) {
        true => Ok(()),
        false => Err(StorageError::corrupted(format!("relation {name} is in no schema"))),
    }
}

fn columns(bytes: &[u8]) -> Result<SchemaRef> {
    Ok(StreamReader::try_new(bytes, None)?.schema())
}
