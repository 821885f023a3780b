//! What both Parquet files share: opening, checking and errors.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::{StoreError, pages};

/// Key of the footer that carries the format version.
const VERSION_KEY: &str = "vtax.version";

/// Common properties; readers of other tools find the version in the footer.
pub(crate) fn properties(version: u32) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION_KEY.to_owned(), version.to_string())]))
        .set_created_by(concat!("vtax ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// Turns an error of the Parquet crate back into the system's where it was one.
pub(crate) fn write_error(path: &Path, error: ParquetError) -> StoreError {
    let io = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    StoreError::io("write", path, io)
}

/// A Parquet file being written.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    inner: SerializedFileWriter<File>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn create(
        path: PathBuf,
        schema: &str,
        properties: WriterProperties,
    ) -> Result<Self, StoreError> {
        let file = File::create(&path).map_err(|e| StoreError::io("create", &path, e))?;
        let inner = parse_message_type(schema)
            .and_then(|s| SerializedFileWriter::new(file, Arc::new(s), Arc::new(properties)))
            .map_err(|e| write_error(&path, e))?;
        Ok(Self { path, inner })
    }

    /// Writes one row group; `column` fills each column in turn.
    pub(crate) fn row_group(
        &mut self,
        mut column: impl FnMut(usize, &mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), StoreError> {
        let mut write = || -> Result<(), ParquetError> {
            let mut group: SerializedRowGroupWriter<'_, File> = self.inner.next_row_group()?;
            let mut index = 0;
            while let Some(mut writer) = group.next_column()? {
                column(index, writer.untyped())?;
                writer.close()?;
                index += 1;
            }
            group.close().map(drop)
        };
        write().map_err(|e| write_error(&self.path, e))
    }

    pub(crate) fn finish(self) -> Result<(), StoreError> {
        let Self { path, inner } = self;
        let file = inner.into_inner().map_err(|e| write_error(&path, e))?;
        file.sync_all().map_err(|e| StoreError::io("write", &path, e))
    }
}

/// Reads the head of a Parquet file and checks its version, the schema of that version, and what its pages say of themselves, so that
/// readers may rely on all of it.
pub(crate) fn open(
    file: File,
    path: &Path,
    schema_of: impl Fn(u32) -> &'static str,
    known: u32,
) -> Result<SerializedFileReader<File>, StoreError> {
    let copy = file.try_clone().map_err(|e| StoreError::io("open", path, e))?;
    let reader = guarded(path, || SerializedFileReader::new(file))?;
    let meta = reader.metadata().file_metadata();
    let found = meta
        .key_value_metadata()
        .and_then(|kv| kv.iter().find(|k| k.key == VERSION_KEY))
        .and_then(|k| k.value.as_deref()?.parse::<u32>().ok())
        .unwrap_or(0);
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    let expected = parse_message_type(schema_of(found)).map_err(|e| StoreError::damaged_trial(path, e))?;
    if meta.schema() != &expected {
        return Err(StoreError::damaged_trial(path, "its columns are not the expected ones"));
    }
    guarded(path, || pages::check(&copy, reader.metadata()))?;
    Ok(reader)
}

/// Runs code of the Parquet crate on a file that may be damaged: some damage makes it panic.
pub(crate) fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|e| StoreError::damaged_trial(path, e)),
        Err(_) => Err(StoreError::damaged_trial(path, "its pages don't decode")),
    }
}

/// Reads up to `$batch` values of a required column of physical type `$variant` into `$into`.
macro_rules! read_column {
    ($path:expr, $reader:expr, $variant:ident, $batch:expr, $into:expr) => {
        match &mut $reader {
            ColumnReader::$variant(r) => {
                $into.clear();
                $crate::parquet_file::guarded($path, || r.read_records($batch, None, None, &mut $into))
                    .map(|(_, values, _)| values)
            }
            _ => Err($crate::StoreError::damaged_trial($path, "a column has another type")),
        }
    };
}
pub(crate) use read_column;

/// The readers of all columns of one row group.
pub(crate) fn columns<const N: usize>(
    path: &Path,
    reader: &SerializedFileReader<File>,
    group: usize,
) -> Result<[ColumnReader; N], StoreError> {
    let readers = guarded(path, || {
        let group = reader.get_row_group(group)?;
        (0..N).map(|i| group.get_column_reader(i)).collect::<Result<Vec<_>, _>>()
    })?;
    readers.try_into().map_err(|_| StoreError::damaged_trial(path, "a column is missing"))
}
