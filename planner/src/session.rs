//! One client's session: SQL text in, outcomes out.


/// Where the session's transaction block stands, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// Who is connected.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub user: String,
    pub database: String,
    pub application_name: String,
    pub process_id: i32,
}
