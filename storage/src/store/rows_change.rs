//! A table's rows as they are written: segments by their numbers, and which of their rows are gone.

use crate::catalog::TableVersion;
use crate::segment::Segment;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// A whole segment by its number, and which of its rows are gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SegmentImage {
    pub id: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<u32>,
}

impl SegmentImage {
    fn of(segment: &Arc<Segment>) -> SegmentImage {
        SegmentImage {
            id: segment.whole_id(),
            gone: segment.live().map_or(Vec::new(), |live| live.gone().collect()),
        }
    }
}

/// A table whose rows alone changed. In this order: segments go, rows of others go, so many of the first of those left are
/// kept, and others follow them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RowsChange {
    pub oid: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<SegmentImage>,
    kept: usize,
    pub then: Vec<SegmentImage>,
}

pub(super) fn images(segments: &[Arc<Segment>]) -> Vec<SegmentImage> {
    segments.iter().map(SegmentImage::of).collect()
}

impl RowsChange {
    pub fn between(then: &[Arc<Segment>], now: &TableVersion) -> RowsChange {
        let there: HashSet<u64> = now.segments().iter().map(|segment| segment.whole_id()).collect();
        let (left, dropped): (Vec<_>, Vec<_>) = then.iter().partition(|then| there.contains(&then.whole_id()));
        let same = left.iter().zip(now.segments().iter());
        let same = same.take_while(|(then, now)| then.whole_id() == now.whole_id());
        let mut gone = Vec::new();
        let mut kept = 0;
        for (then, now) in same {
            kept += 1;
            let (Some(live), true) = (now.live(), then.id() != now.id()) else {
                continue;
            };
            gone.push(SegmentImage {
                id: now.whole_id(),
                gone: live.gone_since(then.live().map(AsRef::as_ref)).collect(),
            });
        }
        RowsChange {
            oid: now.oid(),
            dropped: dropped.into_iter().map(|segment| segment.whole_id()).collect(),
            gone,
            kept,
            then: images(&now.segments()[kept..]),
        }
    }

    /// False: it is none of these segments'.
    pub fn apply(self, segments: &mut Vec<SegmentImage>) -> bool {
        let dropped: HashSet<u64> = self.dropped.into_iter().collect();
        if !dropped.is_empty() {
            segments.retain(|segment| !dropped.contains(&segment.id));
        }
        for change in self.gone {
            let Some(own) = segments.iter_mut().find(|own| own.id == change.id) else {
                return false;
            };
            own.gone.extend(change.gone);
        }
        if segments.len() < self.kept {
            return false;
        }
        segments.truncate(self.kept);
        segments.extend(self.then);
        true
    }
}
