//! The one error type of the storage stage. Each kind has one SQLSTATE; texts follow PostgreSQL's.

use std::fmt;

/// What went wrong, and thereby the SQLSTATE that a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    DuplicateTable,
    UndefinedTable,
    DuplicateSchema,
    UndefinedSchema,
    DuplicateColumn,
    DuplicateObject,
    UndefinedColumn,
    UndefinedObject,
    TooManyColumns,
    DependentObjects,
    WrongObjectType,
    InvalidTableDefinition,
    NotNullViolation,
    UniqueViolation,
    StringTooLong,
    StringLengthMismatch,
    NumericOutOfRange,
    InvalidDatetimeFormat,
    DatetimeOverflow,
    IntervalFieldOverflow,
    ZoneOverflow,
    InvalidText,
    DataException,
    InvalidBinary,
    InvalidEncoding,
    InvalidParameter,
    DatatypeMismatch,
    BadCopyFormat,
    OutOfMemory,
    SerializationFailure,
    Deadlock,
    ProgramLimit,
    StackDepth,
    Untranslatable,
    ArraySubscript,
    SequenceLimit,
    Unsupported,
    UndefinedFile,
    Io,
    DiskFull,
    DataCorrupted,
    Canceled,
    Internal,
}

impl ErrorKind {
    /// The five characters of PostgreSQL's appendix A.
    pub fn sqlstate(self) -> &'static str {
        match self {
            ErrorKind::DuplicateTable => "42P07",
            ErrorKind::UndefinedTable => "42P01",
            ErrorKind::DuplicateSchema => "42P06",
            ErrorKind::UndefinedSchema => "3F000",
            ErrorKind::DuplicateColumn => "42701",
            ErrorKind::DuplicateObject => "42710",
            ErrorKind::UndefinedColumn => "42703",
            ErrorKind::UndefinedObject => "42704",
            ErrorKind::TooManyColumns => "54011",
            ErrorKind::DependentObjects => "2BP01",
            ErrorKind::WrongObjectType => "42809",
            ErrorKind::InvalidTableDefinition => "42P16",
            ErrorKind::NotNullViolation => "23502",
            ErrorKind::UniqueViolation => "23505",
            ErrorKind::StringTooLong => "22001",
            ErrorKind::StringLengthMismatch => "22026",
            ErrorKind::NumericOutOfRange => "22003",
            ErrorKind::InvalidDatetimeFormat => "22007",
            ErrorKind::DatetimeOverflow => "22008",
            ErrorKind::IntervalFieldOverflow => "22015",
            ErrorKind::ZoneOverflow => "22009",
            ErrorKind::InvalidText => "22P02",
            ErrorKind::DataException => "22000",
            ErrorKind::InvalidBinary => "22P03",
            ErrorKind::InvalidEncoding => "22021",
            ErrorKind::InvalidParameter => "22023",
            ErrorKind::DatatypeMismatch => "42804",
            ErrorKind::BadCopyFormat => "22P04",
            ErrorKind::OutOfMemory => "53200",
            ErrorKind::SerializationFailure => "40001",
            ErrorKind::Deadlock => "40P01",
            ErrorKind::ProgramLimit => "54000",
            ErrorKind::StackDepth => "54001",
            ErrorKind::Untranslatable => "22P05",
            ErrorKind::ArraySubscript => "2202E",
            ErrorKind::SequenceLimit => "2200H",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::UndefinedFile => "58P01",
            ErrorKind::Io => "58030",
            ErrorKind::DiskFull => "53100",
            ErrorKind::DataCorrupted => "XX001",
            ErrorKind::Canceled => "57014",
            ErrorKind::Internal => "XX000",
        }
    }
}

/// What an error is about: the names that PostgreSQL's report has as fields of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub schema: String,
    pub table: Option<String>,
    pub column: Option<String>,
    pub data_type: Option<String>,
    pub constraint: Option<String>,
    /// Which of the rows that were to be added, for who knows where they come from.
    pub row: Option<u64>,
}

impl Subject {
    pub fn table(schema: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            schema: schema.into(),
            table: Some(table.into()),
            ..Self::default()
        }
    }

    pub fn data_type(schema: impl Into<String>, data_type: impl Into<String>) -> Self {
        Self {
            schema: schema.into(),
            data_type: Some(data_type.into()),
            ..Self::default()
        }
    }

    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    pub fn constraint(mut self, constraint: impl Into<String>) -> Self {
        self.constraint = Some(constraint.into());
        self
    }
}

/// An error with the fields that PostgreSQL's error report has. `context` says where in the input (`COPY t, line 3`).
#[derive(Clone, Debug)]
pub struct StorageError {
    pub kind: ErrorKind,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub context: Option<String>,
    pub subject: Option<Box<Subject>>,
}

pub type Result<T, E = StorageError> = std::result::Result<T, E>;

impl StorageError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            subject: None,
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }

    /// Adds the place in the input, unless an inner layer has said it already.
    pub fn context(mut self, context: impl FnOnce() -> String) -> Self {
        self.context.get_or_insert_with(context);
        self
    }

    pub fn sqlstate(&self) -> &'static str {
        self.kind.sqlstate()
    }

    pub fn duplicate_table(name: &str) -> Self {
        Self::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"))
    }

    pub fn undefined_table(name: &str) -> Self {
        Self::new(ErrorKind::UndefinedTable, format!("relation \"{name}\" does not exist"))
    }

    pub fn undefined_schema(name: &str) -> Self {
        Self::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"))
    }

    pub fn undefined_column(table: &str, column: &str) -> Self {
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        Self::new(ErrorKind::UndefinedColumn, message)
    }

    pub fn duplicate_column(column: &str) -> Self {
        Self::new(
            ErrorKind::DuplicateColumn,
            format!("column \"{column}\" specified more than once"),
        )
    }

    pub fn serialization() -> Self {
        Self::new(
            ErrorKind::SerializationFailure,
            "could not serialize access due to concurrent update",
        )
        .hint("The transaction might succeed if retried.")
    }

    /// Others have changed what a serializable transaction has read.
    pub fn read_write() -> Self {
        Self::new(
            ErrorKind::SerializationFailure,
            "could not serialize access due to read/write dependencies among transactions",
        )
        .hint("The transaction might succeed if retried.")
    }

    pub fn out_of_memory(requested_bytes: usize, in_use_bytes: usize, limit_bytes: usize) -> Self {
        Self::new(ErrorKind::OutOfMemory, "out of memory").detail(format!(
            "Failed on a request of {requested_bytes} bytes: {in_use_bytes} bytes of the memory limit of {limit_bytes} are in use."
        ))
    }

    /// Data that is not as it was written.
    pub(crate) fn corrupted(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::DataCorrupted, what)
    }

    /// A bug of ours.
    pub fn internal(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, what.to_string())
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(context) = &self.context {
            write!(f, " ({context})")?;
        }
        Ok(())
    }
}

impl std::error::Error for StorageError {}

impl From<arrow::error::ArrowError> for StorageError {
    fn from(error: arrow::error::ArrowError) -> Self {
        use arrow::error::ArrowError;
        let kind = match &error {
            ArrowError::CastError(_) | ArrowError::ParseError(_) => ErrorKind::InvalidText,
            ArrowError::ArithmeticOverflow(_) => ErrorKind::NumericOutOfRange,
            ArrowError::OffsetOverflowError(_) => ErrorKind::ProgramLimit,
            ArrowError::MemoryError(_) => ErrorKind::OutOfMemory,
            ArrowError::IoError(..) => ErrorKind::Io,
            ArrowError::NotYetImplemented(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
