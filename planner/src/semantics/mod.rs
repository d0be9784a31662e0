//! PostgreSQL's meaning of expressions where DataFusion's differs: analyzer rules that run after type coercion.

use datafusion::execution::SessionStateBuilder;

/// Adds the rules.
pub(crate) fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
}
