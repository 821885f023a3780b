//! Every figure of every trial of one or more runs as one Parquet file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use vtax_report::{FigureRow, Report};
use vtax_store::record::{TrialRecord, Validity};

use crate::ExportError;
use crate::identity::run_id;

/// Version of the columns (docs/formats.md).
pub const FIGURES_VERSION: u32 = 1;

/// So many links may lead to one another, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Every column may be empty: that is simpler to write, and readers don't care.
const SCHEMA: &str = "message figures {
    optional binary run (STRING);
    optional binary plan (STRING);
    optional binary host (STRING);
    optional int64 run_started (TIMESTAMP(MILLIS,true));
    optional int32 trial;
    optional int32 round;
    optional int32 repetition;
    optional int64 started (TIMESTAMP(MILLIS,true));
    optional binary cell (STRING);
    optional binary environment (STRING);
    optional binary accelerator (STRING);
    optional binary measure (STRING);
    optional binary member (STRING);
    optional boolean valid;
    optional binary reason (STRING);
    optional binary metric (STRING);
    optional binary unit (STRING);
    optional double value;
    optional boolean at_least;
}";

/// The values of one column.
#[derive(Debug)]
enum Column {
    Text(Vec<Option<ByteArray>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Double(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
}

/// A Parquet file that runs are added to. What was there before stays until it is finished, where it can be replaced.
pub struct ParquetFile {
    path: PathBuf,
    /// `None` where it is written in place.
    part: Option<Part>,
    writer: SerializedFileWriter<File>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file beside another, which takes its place when it is whole; removed when dropped before.
struct Part {
    path: PathBuf,
    /// Whose place it takes.
    target: PathBuf,
}

impl Part {
    /// An empty one beside a file, which may be there already or not; `None` where a file that is there must be written in place, as
    /// its directory takes no other, and beside what isn't a file: a pipe or a device has no place that another could take.
    fn beside(path: &Path) -> io::Result<Option<(Self, File)>> {
        let target = led_to(path)?;
        let before = fs::metadata(&target).ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            return Ok(None);
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = match File::create_new(&path) {
            Err(error) if before.is_some() && takes_no_other(error.kind()) => return Ok(None),
            made => made?,
        };
        let part = Self { path, target };
        if let Some(before) = before {
            file.set_permissions(before.permissions())?;
        }
        Ok(Some((part, file)))
    }

    fn finish(self) -> io::Result<()> {
        match fs::rename(&self.path, &self.target) {
            Err(error) if keeps_its_place(error.kind()) => self.copy(),
            renamed => renamed,
        }
    }

    /// Copies it into the other, which stays the file it is.
    fn copy(&self) -> io::Result<()> {
        let (mut from, mut to) = (File::open(&self.path)?, File::create(&self.target)?);
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    }
}

/// Where a path's links lead, also where nothing is there yet: a link stays one.
fn led_to(path: &Path) -> io::Result<PathBuf> {
    if let Ok(target) = fs::canonicalize(path) {
        return Ok(target);
    }
    let mut here = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&here) {
            Ok(next) => here = here.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(here),
        }
    }
    // The kernel tells that they lead nowhere.
    fs::metadata(path).map(|_| here)
}

/// Nothing can be made in a directory, though a file in it may well be writable.
fn takes_no_other(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// A file that can't be replaced, though it may well be writable: a file system is mounted on it, or it is another user's in a
/// directory that all share.
fn keeps_its_place(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::ResourceBusy | ErrorKind::CrossesDevices | ErrorKind::PermissionDenied)
}

impl Drop for Part {
    fn drop(&mut self) {
        // Once it has taken the other's place there is nothing.
        let _ = fs::remove_file(&self.path);
    }
}

impl ParquetFile {
    /// Begins the file. What is there is replaced when it is finished, and stays as it is otherwise; a pipe, a device, or a file in a
    /// directory that takes no other is written to at once.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`].
    pub fn create(path: &Path) -> Result<Self, ExportError> {
        let version = KeyValue::new("vtax.version".to_owned(), FIGURES_VERSION.to_string());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![version]))
            .set_created_by(concat!("vtax ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let (part, file) = match Part::beside(path).map_err(|e| error(path, e))? {
            Some((part, file)) => (Some(part), file),
            None => (None, File::create(path).map_err(|e| error(path, e))?),
        };
        let writer = parse_message_type(SCHEMA)
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)))
            .map_err(|e| error(path, e))?;
        Ok(Self { path: path.to_owned(), part, writer })
    }

    /// Adds a run: a row for each figure of a trial that counts, one for each trial that doesn't. Returns how many.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`].
    pub fn add(&mut self, report: &Report) -> Result<usize, ExportError> {
        let rows = rows(report);
        if rows.is_empty() {
            return Ok(0);
        }
        let columns = columns(report, &rows);
        self.row_group(&columns).map_err(|e| error(&self.path, e))?;
        Ok(rows.len())
    }

    fn row_group(&mut self, columns: &[Column]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut next = columns.iter();
        while let Some(mut writer) = group.next_column()? {
            let Some(column) = next.next() else {
                return Err(ParquetError::General("there are fewer columns than the schema has".to_owned()));
            };
            put(column, writer.untyped())?;
            writer.close()?;
        }
        group.close().map(drop)
    }

    /// Ends the file, which takes the place of what was there; without this nothing of it is.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`].
    pub fn finish(self) -> Result<(), ExportError> {
        let Self { path, part, writer } = self;
        let file = writer.into_inner().map_err(|e| error(&path, e))?;
        file.sync_all().map_err(|e| error(&path, e))?;
        part.map_or(Ok(()), Part::finish).map_err(|e| error(&path, e))
    }
}

fn error(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ExportError {
    ExportError::Write { path: path.to_owned(), source: source.into() }
}

/// One row: a trial, and a figure of it.
type Row<'a> = (&'a TrialRecord, Option<FigureRow<'a>>);

fn rows(report: &Report) -> Vec<Row<'_>> {
    let trials: BTreeMap<u32, &TrialRecord> = report.trials().iter().map(|t| (t.index, t)).collect();
    let figures = report.figures().into_iter();
    let mut rows: Vec<Row<'_>> = figures.filter_map(|f| Some((*trials.get(&f.trial)?, Some(f)))).collect();
    let invalid = report.trials().iter().filter(|t| t.validity != Validity::Valid);
    rows.extend(invalid.map(|t| (t, None)));
    rows.sort_by_key(|(trial, _)| trial.index);
    rows
}

fn columns(report: &Report, rows: &[Row<'_>]) -> Vec<Column> {
    let (provenance, run) = (report.provenance(), run_id(report));
    let environment = |cell: &str| -> Option<&str> {
        report.plan().cells.iter().find(|c| c.id == cell).map(|c| c.environment.name.as_str())
    };
    let text = |of: &dyn Fn(&Row<'_>) -> Option<String>| {
        Column::Text(rows.iter().map(|row| of(row).map(|t| ByteArray::from(t.as_str()))).collect())
    };
    let int32 = |of: &dyn Fn(&Row<'_>) -> u32| {
        Column::Int32(rows.iter().map(|row| i32::try_from(of(row)).ok()).collect())
    };
    let int64 = |of: &dyn Fn(&Row<'_>) -> u64| {
        Column::Int64(rows.iter().map(|row| i64::try_from(of(row)).ok()).collect())
    };
    vec![
        text(&|_| Some(run.clone())),
        text(&|_| Some(report.plan().name.clone())),
        text(&|(t, _)| Some(if t.host.is_empty() { provenance.host.name.clone() } else { t.host.clone() })),
        int64(&|_| provenance.started_unix_ms),
        int32(&|(t, _)| t.index),
        int32(&|(t, _)| t.round.unwrap_or(t.repetition)),
        int32(&|(t, _)| t.repetition),
        int64(&|(t, _)| t.started_unix_ms),
        text(&|(t, f)| Some(f.map_or(t.cell.as_str(), |f| f.cell).to_owned())),
        text(&|(t, _)| environment(&t.cell).map(str::to_owned)),
        text(&|(t, _)| t.accelerator.clone()),
        text(&|(t, f)| Some(f.map_or(t.measure.as_str(), |f| f.measure).to_owned())),
        text(&|(_, f)| f.and_then(|f| f.member).map(str::to_owned)),
        Column::Bool(rows.iter().map(|(t, _)| Some(t.validity == Validity::Valid)).collect()),
        text(&|(t, _)| vtax_report::pages::invalid(&t.validity)),
        text(&|(_, f)| f.map(|f| f.metric.to_owned())),
        text(&|(_, f)| f.map(|f| f.unit.to_owned())),
        Column::Double(rows.iter().map(|(_, f)| f.map(|f| f.value)).collect()),
        Column::Bool(rows.iter().map(|(_, f)| f.map(|f| f.at_least)).collect()),
    ]
}

/// Writes a column whose type is the schema's.
fn put(column: &Column, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
    let written = match (column, writer) {
        (Column::Text(all), ColumnWriter::ByteArrayColumnWriter(w)) => {
            let (values, levels) = present(all);
            w.write_batch(&values, Some(&levels), None)
        }
        (Column::Int32(all), ColumnWriter::Int32ColumnWriter(w)) => {
            let (values, levels) = present(all);
            w.write_batch(&values, Some(&levels), None)
        }
        (Column::Int64(all), ColumnWriter::Int64ColumnWriter(w)) => {
            let (values, levels) = present(all);
            w.write_batch(&values, Some(&levels), None)
        }
        (Column::Double(all), ColumnWriter::DoubleColumnWriter(w)) => {
            let (values, levels) = present(all);
            w.write_batch(&values, Some(&levels), None)
        }
        (Column::Bool(all), ColumnWriter::BoolColumnWriter(w)) => {
            let (values, levels) = present(all);
            w.write_batch(&values, Some(&levels), None)
        }
        _ => Err(ParquetError::General("a column has another type than the schema".to_owned())),
    };
    written.map(drop)
}

/// The values that are there, and for each row whether one is.
fn present<T: Clone>(all: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let values = all.iter().flatten().cloned().collect();
    (values, all.iter().map(|value| i16::from(value.is_some())).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// The kernel's numbers: those tests that run as root are refused nothing.
    #[test]
    fn what_can_be_written_but_not_replaced_is_told_apart() {
        let kind = |number| io::Error::from_raw_os_error(number).kind();
        let (eperm, enoent, eacces, ebusy, exdev, enospc, erofs) = (1, 2, 13, 16, 18, 28, 30);
        let made = [eperm, eacces, erofs, enoent, enospc, ebusy].map(|number| takes_no_other(kind(number)));
        assert_eq!(made, [true, true, true, false, false, false]);
        let renamed = [eperm, eacces, ebusy, exdev, enoent, enospc, erofs];
        let renamed = renamed.map(|number| keeps_its_place(kind(number)));
        assert_eq!(renamed, [true, true, true, true, false, false, false]);
    }

    #[test]
    fn what_cannot_be_replaced_is_filled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figures.parquet");
        fs::write(&path, "of before, and longer").unwrap();
        let number = fs::metadata(&path).unwrap().ino();
        let (part, _) = Part::beside(&path).unwrap().unwrap();
        fs::write(&part.path, "of now").unwrap();
        part.copy().unwrap();
        drop(part);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino()),
            (b"of now".to_vec(), number)
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
