//! What a session asks of its joins (`SET tenon.join_operator` and its like), as operators read it when they run:
//! `JoinOptions::of(context.session_config())`.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;
use datafusion::prelude::SessionConfig;

use crate::test_hooks;

/// The operator that joins must use; a join whose condition it cannot evaluate is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinOperator {
    /// Chosen from the facts of each join.
    #[default]
    Auto,
    /// Non-indexed nested loops (He 2008, section 4.1).
    Ninlj,
    /// Indexed nested loops on a CSS-tree (He 2008, section 4.2).
    Inlj,
    /// Sort-merge (He 2008, section 4.3).
    Smj,
    /// Hash join with both sides at hand (He 2008, section 4.4).
    Hj,
    /// Hash join whose probe side streams past a table of the build side, on the CPU.
    Streamed,
    /// Hash join whose state exceeds the device (Lutz 2022).
    Triton,
}

impl JoinOperator {
    /// The names that the setting takes.
    pub const NAMES: &[&str] = &["auto", "ninlj", "inlj", "smj", "hj", "streamed", "triton"];

    const ALL: [Self; 7] = [
        Self::Auto,
        Self::Ninlj,
        Self::Inlj,
        Self::Smj,
        Self::Hj,
        Self::Streamed,
        Self::Triton,
    ];

    pub fn named(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|own| *own == name)?;
        Some(Self::ALL[at])
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Where joins must run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Where the costs say.
    #[default]
    Auto,
    /// On the GPU wherever there is one that can.
    Gpu,
    Cpu,
}

impl DeviceChoice {
    /// The names that the setting takes.
    pub const NAMES: &[&str] = &["auto", "gpu", "cpu"];

    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "gpu" => Self::Gpu,
            "cpu" => Self::Cpu,
            _ => return None,
        })
    }
}

/// One a statement, carried as an extension of DataFusion's `SessionConfig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinOptions {
    pub operator: JoinOperator,
    pub device: DeviceChoice,
    /// Device memory that one statement may reserve, in bytes; None: what is free.
    pub gpu_memory_limit_bytes: Option<usize>,
    /// Whether a statement waits for its code on the GPU; else the CPU does the work meanwhile.
    pub wait_for_compile: bool,
    /// Whether fragments count the rows of their nodes: EXPLAIN ANALYZE asks for them.
    pub count_rows: bool,
}

impl JoinOptions {
    /// The options of a running plan: those of its session, or the defaults where a plan runs without one.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or_else(Self::default, |own| *own)
    }
}

extensions_options! {
    /// What plans are made of, where DataFusion's rules see no more than its own configuration.
    pub struct PlanOptions {
        /// Whether joins may look rows up in an index.
        pub index_joins: bool, default = true
        /// Whether they do so wherever there is one.
        pub index_joins_always: bool, default = false
        /// Whether the operator of each join is chosen, and not named by the session.
        pub chosen_joins: bool, default = true
        /// Whether the plan's operators are to be those that go on through files where memory is short.
        pub spill: bool, default = false
        /// Whether joins may run on the GPU instead.
        pub gpu_joins: bool, default = true
    }
}

impl ConfigExtension for PlanOptions {
    const PREFIX: &'static str = "tenon";
}

impl PlanOptions {
    /// As much of the session's options as an index join's choice needs.
    pub fn join_options(&self) -> JoinOptions {
        JoinOptions {
            operator: match self.index_joins_always {
                true => JoinOperator::Inlj,
                false => JoinOperator::Auto,
            },
            device: match self.gpu_joins {
                true => DeviceChoice::Auto,
                false => DeviceChoice::Cpu,
            },
            gpu_memory_limit_bytes: None,
            wait_for_compile: false,
            count_rows: false,
        }
    }
}

impl JoinOptions {
    /// What these options mean for the making of plans: joins by an index are INLJ, on the CPU.
    pub fn plan_options(&self) -> PlanOptions {
        let mut plan = PlanOptions::default();
        let indexed = matches!(self.operator, JoinOperator::Auto | JoinOperator::Inlj);
        plan.index_joins = indexed && self.device != DeviceChoice::Gpu;
        plan.index_joins_always = self.operator == JoinOperator::Inlj;
        plan.gpu_joins = self.device != DeviceChoice::Cpu;
        plan.chosen_joins = self.operator == JoinOperator::Auto;
        plan.spill = test_hooks::through_files();
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_name_is_taken_and_the_first_is_the_default() {
        let operators: Vec<_> = JoinOperator::NAMES
            .iter()
            .map(|name| JoinOperator::named(name))
            .collect();
        assert!(operators.iter().all(Option::is_some));
        let names: Vec<_> = operators.iter().flatten().map(|operator| operator.name()).collect();
        assert_eq!(names, JoinOperator::NAMES);
        assert_eq!(operators[0], Some(JoinOperator::default()));
        let devices: Vec<_> = DeviceChoice::NAMES
            .iter()
            .map(|name| DeviceChoice::named(name))
            .collect();
        assert!(devices.iter().all(Option::is_some));
        assert_eq!(devices[0], Some(DeviceChoice::default()));
        assert_eq!(JoinOperator::named("hash"), None);
    }

    #[test]
    fn options_travel_in_the_configuration() {
        assert_eq!(JoinOptions::of(&SessionConfig::new()), JoinOptions::default());
        let options = JoinOptions {
            operator: JoinOperator::Triton,
            device: DeviceChoice::Cpu,
            gpu_memory_limit_bytes: Some(1 << 30),
            wait_for_compile: true,
            count_rows: true,
        };
        let config = SessionConfig::new().with_extension(Arc::new(options));
        assert_eq!(JoinOptions::of(&config), options);
    }
}
