//! What a session has open, for the system's tables, and the server's connections, for functions that stop them.

/// The server's connections, which functions may stop by the process id that clients were told.
pub trait Clients: std::fmt::Debug + Send + Sync {
    /// Cancels what the connection runs. False: there is none of that id.
    fn cancel(&self, process_id: i32) -> bool;
    /// Ends the connection. False: there is none of that id.
    fn terminate(&self, process_id: i32) -> bool;
    /// The role that connected; None: there is none of that id.
    fn role(&self, process_id: i32) -> Option<u32>;
    /// Has the server read again what it can read again.
    fn reload(&self);
}

/// What a session has open, for the system's tables.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub cursors: Vec<ListedCursor>,
    pub statements: Vec<ListedStatement>,
}

#[derive(Debug)]
pub(crate) struct ListedCursor {
    pub name: String,
    pub statement: String,
    pub is_holdable: bool,
    pub is_binary: bool,
    pub is_scrollable: bool,
    /// Microseconds since 1970, UTC.
    pub created_us: i64,
}

#[derive(Debug)]
pub(crate) struct ListedStatement {
    pub name: String,
    pub statement: String,
    /// Microseconds since 1970, UTC.
    pub prepared_us: i64,
    /// Oids of types.
    pub parameters: Vec<u32>,
    pub from_sql: bool,
}
