//! This crate's nodes among those of a plan, by kind: what is done for each is one match, which the compiler finds wanting where
//! a kind is new.

use crate::aggregate::GroupExec;
use crate::group_top::GroupTopExec;
use crate::join::{IndexJoinExec, JoinExec};
use crate::pipeline::OffloadExec;
use crate::scan::ScanExec;
use crate::window::WindowExec;
use datafusion::physical_plan::ExecutionPlan;

/// A node of this crate.
#[derive(Clone, Copy, Debug)]
pub enum ExecutorNode<'p> {
    Scan(&'p ScanExec),
    Join(&'p JoinExec),
    IndexJoin(&'p IndexJoinExec),
    Group(&'p GroupExec),
    GroupTop(&'p GroupTopExec),
    Window(&'p WindowExec),
    Offload(&'p OffloadExec),
}

impl<'p> ExecutorNode<'p> {
    /// None: the node is DataFusion's, or another crate's.
    pub fn of(plan: &'p dyn ExecutionPlan) -> Option<Self> {
        None.or_else(|| plan.downcast_ref().map(Self::Scan))
            .or_else(|| plan.downcast_ref().map(Self::Join))
            .or_else(|| plan.downcast_ref().map(Self::IndexJoin))
            .or_else(|| plan.downcast_ref().map(Self::Group))
            .or_else(|| plan.downcast_ref().map(Self::GroupTop))
            .or_else(|| plan.downcast_ref().map(Self::Window))
            .or_else(|| plan.downcast_ref().map(Self::Offload))
    }

    /// Whether a copy with new inputs has nothing of what the node did before, and keeps the runtime filters that a reset would
    /// take from it.
    pub fn is_new_with_inputs(self) -> bool {
        match self {
            Self::Scan(_) | Self::Join(_) | Self::IndexJoin(_) | Self::Group(_) | Self::GroupTop(_) => true,
            Self::Window(_) | Self::Offload(_) => false,
        }
    }
}
