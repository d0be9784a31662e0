//! Which operator computes a join: one pure function from facts to an operator, its build side and the reason in words.
//!
//! | predicate | facts | operator |
//! | --- | --- | --- |
//! | equality | | HJ, streamed past a table of the build side where the kind of key allows it |
//! | range or band | one side's key bounded by the other's | SMJ: sort that side, search it for each row of the other |
//! | anything else | a build side of a few rows | NINLJ, streamed |
//! | anything else | | NINLJ |

use std::fmt;

use datafusion::common::JoinSide;

use crate::options::{JoinOperator, JoinOptions};

/// The operators of He 2008, section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Ninlj,
    Inlj,
    Smj,
    Hj,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Operator::Ninlj => "NINLJ",
            Operator::Inlj => "INLJ",
            Operator::Smj => "SMJ",
            Operator::Hj => "HJ",
        })
    }
}

/// What a join's condition offers to an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicate {
    Equality,
    /// `sorted` is the side whose key is bounded by the other side's expressions, on one end or on both.
    Range {
        sorted: JoinSide,
        both_ends: bool,
    },
    Other,
}

#[derive(Debug, Clone)]
pub struct Facts {
    pub predicate: Predicate,
    /// Whether the probe side can stream past a table of the build side (equal keys with Arrow's equality, or none).
    pub streams: bool,
    /// Rows; none where nobody knows.
    pub build_rows: Option<usize>,
    pub probe_rows: Option<usize>,
}

/// How a join runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub operator: Operator,
    /// The probe side is not collected.
    pub streamed: bool,
    /// The side that the operator sorts or builds its table of.
    pub build: JoinSide,
    pub reason: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} on cpu: {}", self.operator, self.reason)
    }
}

/// Build rows up to which a join without keys streams its probe side past all of them.
const STREAMED_ROWS_MAX: usize = 64;

/// Chooses; the error says why what the options ask for is impossible.
pub fn choose(facts: &Facts, options: &JoinOptions) -> Result<Choice, String> {
    let equality = facts.predicate == Predicate::Equality;
    let ranged = matches!(facts.predicate, Predicate::Range { .. });
    let (operator, because) = match options.operator {
        JoinOperator::Auto => return Ok(automatic(facts)),
        JoinOperator::Hj if equality => (Operator::Hj, "tenon.join_operator"),
        JoinOperator::Hj => return Err("tenon.join_operator = 'hj' needs an equality condition".into()),
        JoinOperator::Smj if equality || ranged => (Operator::Smj, "tenon.join_operator"),
        JoinOperator::Smj => return Err("tenon.join_operator = 'smj' needs an equality or a range condition".into()),
        JoinOperator::Ninlj => (Operator::Ninlj, "tenon.join_operator"),
        JoinOperator::Inlj => return Err("tenon.join_operator = 'inlj' is not supported".into()),
        JoinOperator::Triton => return Err("tenon.join_operator = 'triton' is not supported".into()),
    };
    Ok(Choice {
        operator,
        streamed: false,
        build: build_side(facts),
        reason: because.into(),
    })
}

fn automatic(facts: &Facts) -> Choice {
    let few = facts.build_rows.is_some_and(|rows| rows <= STREAMED_ROWS_MAX);
    let (operator, streamed, reason) = match facts.predicate {
        Predicate::Equality if facts.streams => (Operator::Hj, true, "equality".to_string()),
        Predicate::Equality => (
            Operator::Hj,
            false,
            "equality of keys that need both sides at hand".to_string(),
        ),
        _ if few && facts.streams => {
            let rows = facts.build_rows.unwrap_or(0);
            (Operator::Ninlj, true, format!("a build side of {rows} rows"))
        }
        Predicate::Range { both_ends: true, .. } => (Operator::Smj, false, "a band".to_string()),
        Predicate::Range { .. } => (Operator::Smj, false, "a range open on one end".to_string()),
        Predicate::Other => (Operator::Ninlj, false, "neither equality nor range".to_string()),
    };
    Choice {
        operator,
        streamed,
        build: if streamed { JoinSide::Left } else { build_side(facts) },
        reason,
    }
}

/// The side to sort or to build a table of: the one that a range condition bounds, else the smaller.
fn build_side(facts: &Facts) -> JoinSide {
    match (facts.predicate, facts.build_rows, facts.probe_rows) {
        (Predicate::Range { sorted, .. }, _, _) => sorted,
        (_, Some(build), Some(probe)) if probe < build => JoinSide::Right,
        _ => JoinSide::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(predicate: Predicate, build_rows: usize, probe_rows: usize) -> Facts {
        Facts {
            predicate,
            streams: true,
            build_rows: Some(build_rows),
            probe_rows: Some(probe_rows),
        }
    }

    const BAND: Predicate = Predicate::Range {
        sorted: JoinSide::Right,
        both_ends: true,
    };

    fn auto(facts: &Facts) -> (Operator, bool, JoinSide) {
        let choice = choose(facts, &JoinOptions::default()).unwrap();
        (choice.operator, choice.streamed, choice.build)
    }

    #[test]
    fn the_ladder_of_cases() {
        use JoinSide::{Left, Right};
        assert_eq!(
            auto(&facts(Predicate::Equality, 10, 1_000_000)),
            (Operator::Hj, true, Left)
        );
        assert_eq!(
            auto(&facts(Predicate::Equality, 1_000_000, 10)),
            (Operator::Hj, true, Left)
        );
        let both_at_hand = Facts {
            streams: false,
            ..facts(Predicate::Equality, 1_000_000, 10)
        };
        assert_eq!(auto(&both_at_hand), (Operator::Hj, false, Right));
        assert_eq!(auto(&facts(BAND, 1, 1_000_000)), (Operator::Ninlj, true, Left));
        assert_eq!(auto(&facts(BAND, 1000, 1000)), (Operator::Smj, false, Right));
        assert_eq!(auto(&facts(Predicate::Other, 3, 1000)), (Operator::Ninlj, true, Left));
        assert_eq!(
            auto(&facts(Predicate::Other, 3000, 1000)),
            (Operator::Ninlj, false, Right)
        );
        let unknown = Facts {
            build_rows: None,
            ..facts(Predicate::Other, 0, 0)
        };
        assert_eq!(auto(&unknown), (Operator::Ninlj, false, Left));
    }

    #[test]
    fn forced_operators_run_or_say_why_not() {
        let forced = |operator, predicate| {
            let options = JoinOptions {
                operator,
                ..JoinOptions::default()
            };
            choose(&facts(predicate, 100, 100), &options).map(|choice| choice.operator)
        };
        for predicate in [Predicate::Equality, BAND, Predicate::Other] {
            assert_eq!(forced(JoinOperator::Ninlj, predicate), Ok(Operator::Ninlj));
        }
        assert_eq!(forced(JoinOperator::Hj, Predicate::Equality), Ok(Operator::Hj));
        assert_eq!(forced(JoinOperator::Smj, BAND), Ok(Operator::Smj));
        assert!(forced(JoinOperator::Hj, BAND).is_err_and(|why| why.contains("equality")));
        assert!(forced(JoinOperator::Smj, Predicate::Other).is_err_and(|why| why.contains("range")));
    }
}
