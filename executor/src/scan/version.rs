//! A scan of one version of a table as a scan of another one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use tenon_storage::TableVersion;

use super::exec::ScanExec;

impl ScanExec {
    /// Table columns whose values the nodes above may count on to ascend, since they did when the scan was made.
    pub fn ascending(&self) -> &[usize] {
        &self.ascending
    }

    /// The same scan of a table without rows: it holds no version of its table in memory.
    pub fn detached(&self) -> Self {
        let mut scan = self.renewed();
        scan.table = self.table.without_rows();
        scan.index = None;
        scan.addressed = None;
        scan.statistics = Arc::new(self.statistics.as_ref().clone().to_inexact());
        scan
    }

    /// The same scan of another version of its table, with `change` made to its filters. It keeps its number of partitions;
    /// whether the rows are in the order that the nodes above count on is the caller's to know ([`ascends_like`]).
    pub fn of_version(
        &self,
        table: &Arc<TableVersion>,
        change: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let given: Vec<_> = self.given().iter().cloned().map(change).collect::<Result<_>>()?;
        self.filtered(table, &given)
    }
}

/// Whether these columns of a table ascend, as far as its statistics tell.
pub fn ascends_like(table: &TableVersion, ascending: &[usize]) -> bool {
    let own = table.statistics();
    let ascends = |column: &usize| own.columns.get(*column).is_some_and(|own| own.ascending);
    own.rows == 0 || ascending.iter().all(ascends)
}
