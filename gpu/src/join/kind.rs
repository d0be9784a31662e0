//! Which rows come out of a join.

/// The kinds of SQL's joins, in terms of build and probe side.
///
/// `NOT IN` (a null-aware anti join) is an anti join whose nulls its caller has dealt with: a null on the inner side
/// leaves nothing, and an outer null leaves the row only if the inner side is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and build rows without partner.
    BuildOuter,
    /// Pairs, and probe rows without partner.
    ProbeOuter,
    /// Pairs, and the rows of both sides without partner.
    Full,
    /// Build rows with a partner, once each.
    BuildSemi,
    /// Probe rows with a partner, once each.
    ProbeSemi,
    /// Build rows without partner.
    BuildAnti,
    /// Probe rows without partner.
    ProbeAnti,
    /// A flag a build row: whether it has a partner.
    BuildMark,
    /// A flag a probe row: whether it has a partner.
    ProbeMark,
}

impl JoinKind {
    pub const ALL: [JoinKind; 10] = [
        JoinKind::Inner,
        JoinKind::BuildOuter,
        JoinKind::ProbeOuter,
        JoinKind::Full,
        JoinKind::BuildSemi,
        JoinKind::ProbeSemi,
        JoinKind::BuildAnti,
        JoinKind::ProbeAnti,
        JoinKind::BuildMark,
        JoinKind::ProbeMark,
    ];

    /// Whether pairs come out.
    pub fn has_pairs(self) -> bool {
        use JoinKind::*;
        matches!(self, Inner | BuildOuter | ProbeOuter | Full)
    }

    /// Whether it must be known which build rows have a partner.
    pub fn flags_build(self) -> bool {
        use JoinKind::*;
        matches!(self, BuildOuter | Full | BuildSemi | BuildAnti | BuildMark)
    }

    /// Whether it must be known which probe rows have a partner.
    pub fn flags_probe(self) -> bool {
        use JoinKind::*;
        matches!(self, ProbeOuter | Full | ProbeSemi | ProbeAnti | ProbeMark)
    }
}
