//! What the kinds of joins ask of the pairs that are found.

use datafusion::common::JoinType;

/// Whether pairs come out.
pub fn has_pairs(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Inner | Left | Right | Full)
}

/// Whether it must be known, at the end, which build rows met a partner.
pub fn tracks_build(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
}

/// Whether it must be known which probe rows met one.
pub fn tracks_probe(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Right | Full | RightSemi | RightAnti | RightMark)
}
