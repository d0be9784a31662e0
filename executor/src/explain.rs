//! What a node that could have run otherwise tells EXPLAIN.

/// A node whose operator or device was chosen.
pub trait Chosen {
    /// The operator in PostgreSQL's words, without "Join": `Hash`, `Merge`, `Nested Loop`.
    fn operator(&self) -> &'static str;

    /// Where it runs: `cpu`, `gpu`.
    fn device(&self) -> &'static str;

    /// Why this operator and this device; None where there was nothing to choose between.
    fn reason(&self) -> Option<String>;
}
