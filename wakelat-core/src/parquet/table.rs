//! One table in the format of Apache Parquet, written in groups of rows.

use std::{io, io::Write, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    errors::Result,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};

/// Number of rows that are kept in memory before they are written.
const ROW_GROUP: usize = 1 << 16;

/// What a column contains. Each value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number, such as a duration in ns.
    Number,
    /// ns since 1970-01-01 UTC.
    Time,
    /// Text in UTF-8.
    Text,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// No value.
    None,
    /// A number or an instant.
    Number(i64),
    /// Text.
    Text(String),
}

impl From<u64> for Cell {
    /// ColumnValues above `i64::MAX` are durations and IDs that do not occur; they become the largest number.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// The values of a column in the current group of rows: those that are not missing, and a 1 for each of them, a 0 for
/// each that is missing.
enum ColumnValues {
    Numbers(Vec<i64>, Vec<i16>),
    Texts(Vec<ByteArray>, Vec<i16>),
}

impl ColumnValues {
    fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Number | ColumnKind::Time => Self::Numbers(Vec::new(), Vec::new()),
            ColumnKind::Text => Self::Texts(Vec::new(), Vec::new()),
        }
    }

    fn push(&mut self, value: Cell) {
        match (self, value) {
            (Self::Numbers(numbers, present), Cell::Number(number)) => {
                numbers.push(number);
                present.push(1);
            }
            (Self::Texts(texts, present), Cell::Text(text)) => {
                texts.push(text.into_bytes().into());
                present.push(1);
            }
            (Self::Numbers(_, present) | Self::Texts(_, present), _) => present.push(0),
        }
    }
}

/// A table that is being written.
pub struct ParquetTable<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<ColumnValues>,
    /// Number of rows in `columns`.
    rows: usize,
    /// What `columns` are made of.
    kinds: Vec<ColumnKind>,
}

impl<W: Write + Send> ParquetTable<W> {
    /// A table with these columns.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(name: &str, columns: &[(String, ColumnKind)], out: W) -> io::Result<Self> {
        let field = |(name, kind): &(String, ColumnKind)| {
            let (physical, logical) = match kind {
                ColumnKind::Number => (PhysicalType::INT64, None),
                ColumnKind::Time => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
                ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
            field.with_logical_type(logical).build().map(Arc::new)
        };
        let open = || {
            let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
            let schema = Type::group_type_builder(name).with_fields(fields).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::LZ4_RAW).build();
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
        };
        let kinds: Vec<ColumnKind> = columns.iter().map(|(_, kind)| *kind).collect();
        let columns = kinds.iter().copied().map(ColumnValues::of).collect();
        Ok(Self { file: open().map_err(io::Error::other)?, columns, rows: 0, kinds })
    }

    /// Adds a row: a value for each column, in their order.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn row(&mut self, values: impl IntoIterator<Item = Cell>) -> io::Result<()> {
        let mut values = values.into_iter();
        self.columns.iter_mut().for_each(|column| column.push(values.next().unwrap_or(Cell::None)));
        self.rows += 1;
        if self.rows < ROW_GROUP { Ok(()) } else { self.end_rows().map_err(io::Error::other) }
    }

    fn end_rows(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let empty = self.kinds.iter().copied().map(ColumnValues::of).collect();
        let mut group = self.file.next_row_group()?;
        for column in std::mem::replace(&mut self.columns, empty) {
            let Some(mut writer) = group.next_column()? else { break };
            match column {
                ColumnValues::Numbers(numbers, present) => {
                    writer.typed::<Int64Type>().write_batch(&numbers, Some(&present), None)?
                }
                ColumnValues::Texts(texts, present) => {
                    writer.typed::<ByteArrayType>().write_batch(&texts, Some(&present), None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the rest, and returns what it was written to.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_rows().and_then(|()| self.file.into_inner()).map_err(io::Error::other)
    }
}
