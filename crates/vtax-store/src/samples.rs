//! `samples.parquet`: every recorded request.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::Encoding;
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::file::reader::FileReader;
use parquet::schema::types::ColumnPath;
use vtax_load::Sample;

use crate::StoreError;
use crate::parquet_file::{self, Writer, columns, read_column};

/// Version of `samples.parquet`.
pub const SAMPLES_VERSION: u32 = 2;

const SCHEMA: &str = "message samples {
    required int64 start_ns (INTEGER(64,false));
    required int64 latency_ns (INTEGER(64,false));
    required int32 outcome (INTEGER(8,false));
}";
/// Of version 1, whose latencies end at 4.29 s.
const FIRST_SCHEMA: &str = "message samples {
    required int64 start_ns (INTEGER(64,false));
    required int32 latency_ns (INTEGER(32,false));
    required int32 outcome (INTEGER(8,false));
}";

/// Rows per row group: bounds what a writer or a reader holds.
const GROUP: usize = 1 << 19;
/// Rows a reader holds decoded.
const BATCH: usize = 1 << 14;

#[derive(Debug)]
pub(crate) struct SampleWriter {
    file: Writer,
    pending: Vec<Sample>,
}

impl SampleWriter {
    pub(crate) fn create(path: PathBuf) -> Result<Self, StoreError> {
        // Starts and latencies are nearly all different: delta packing beats both plain and dictionary.
        let mut properties = parquet_file::properties(SAMPLES_VERSION);
        for name in ["start_ns", "latency_ns"] {
            let column = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        Ok(Self { file: Writer::create(path, SCHEMA, properties.build())?, pending: Vec::new() })
    }

    pub(crate) fn append(&mut self, mut samples: &[Sample]) -> Result<(), StoreError> {
        while !samples.is_empty() {
            let (now, rest) = samples.split_at(samples.len().min(GROUP - self.pending.len()));
            self.pending.extend_from_slice(now);
            samples = rest;
            if self.pending.len() == GROUP {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let rows = &self.pending;
        self.file.row_group(|column, writer| {
            match writer {
                ColumnWriter::Int64ColumnWriter(w) => {
                    let value = |s: &Sample| match column {
                        0 => s.start_ns.cast_signed(),
                        _ => s.latency_ns.cast_signed(),
                    };
                    let values: Vec<i64> = rows.iter().map(value).collect();
                    w.write_batch(&values, None, None)?;
                }
                ColumnWriter::Int32ColumnWriter(w) => {
                    let values: Vec<i32> = rows.iter().map(|s| i32::from(s.outcome)).collect();
                    w.write_batch(&values, None, None)?;
                }
                _ => unreachable!("the schema has only integers"),
            }
            Ok(())
        })?;
        self.pending.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        self.file.finish()
    }
}

pub(crate) fn read_samples(file: File, path: &Path, mut each: impl FnMut(Sample)) -> Result<u64, StoreError> {
    let schema_of = |version| if version > 1 { SCHEMA } else { FIRST_SCHEMA };
    let reader = parquet_file::open(file, path, schema_of, SAMPLES_VERSION)?;
    let mut total = 0;
    let mut starts: Vec<i64> = Vec::with_capacity(BATCH);
    let mut latencies: Vec<u64> = Vec::with_capacity(BATCH);
    let mut outcomes: Vec<i32> = Vec::with_capacity(BATCH);
    for group in 0..reader.num_row_groups() {
        let [mut start, mut latency, mut outcome] = columns(path, &reader, group)?;
        loop {
            let n = read_column!(path, start, Int64ColumnReader, BATCH, starts)?;
            let m = read_latencies(path, &mut latency, &mut latencies)?;
            let o = read_column!(path, outcome, Int32ColumnReader, BATCH, outcomes)?;
            if n != m || n != o {
                return Err(StoreError::damaged_trial(path, "its columns differ in length"));
            }
            if n == 0 {
                break;
            }
            total += n as u64;
            for ((s, l), o) in starts.iter().zip(&latencies).zip(&outcomes) {
                each(Sample {
                    start_ns: s.cast_unsigned(),
                    latency_ns: *l,
                    outcome: o.cast_unsigned().to_le_bytes()[0],
                });
            }
        }
    }
    Ok(total)
}

/// Reads latencies, of which those of version 1 are half as wide; how many there were.
fn read_latencies(path: &Path, column: &mut ColumnReader, into: &mut Vec<u64>) -> Result<usize, StoreError> {
    into.clear();
    if matches!(column, ColumnReader::Int32ColumnReader(_)) {
        let mut narrow: Vec<i32> = Vec::with_capacity(BATCH);
        let n = read_column!(path, *column, Int32ColumnReader, BATCH, narrow)?;
        into.extend(narrow.iter().map(|l| u64::from(l.cast_unsigned())));
        return Ok(n);
    }
    let mut wide: Vec<i64> = Vec::with_capacity(BATCH);
    let n = read_column!(path, *column, Int64ColumnReader, BATCH, wide)?;
    into.extend(wide.iter().map(|l| l.cast_unsigned()));
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes the least room of all that vtax writes: several groups of requests that are all alike.
    #[test]
    fn requests_that_are_all_alike_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let sample = Sample { start_ns: 7, latency_ns: 9, outcome: 0 };
        let mut writer = SampleWriter::create(path.clone()).unwrap();
        writer.append(&vec![sample; GROUP + 1]).unwrap();
        writer.finish().unwrap();
        let mut alike = 0;
        let each = |found: Sample| alike += u64::from(found == sample);
        let total = read_samples(File::open(&path).unwrap(), &path, each).unwrap();
        assert_eq!((total, alike), (GROUP as u64 + 1, GROUP as u64 + 1));
    }

    #[test]
    fn a_small_file_with_rows_without_an_end_is_refused() {
        const ROWS: usize = 1 << 18;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        // In each column one page, and in that one run.
        let properties = parquet_file::properties(SAMPLES_VERSION).set_data_page_row_count_limit(ROWS + 1);
        let mut file = Writer::create(path.clone(), SCHEMA, properties.build()).unwrap();
        let (wide, narrow) = (vec![0i64; ROWS], vec![0i32; ROWS]);
        file.row_group(|_, writer| {
            match writer {
                ColumnWriter::Int64ColumnWriter(w) => w.write_batch(&wide, None, None)?,
                ColumnWriter::Int32ColumnWriter(w) => w.write_batch(&narrow, None, None)?,
                _ => unreachable!("the schema has only integers"),
            };
            Ok(())
        })
        .unwrap();
        file.finish().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 4096);
        let mut seen = 0;
        let error = read_samples(File::open(&path).unwrap(), &path, |_| seen += 1).unwrap_err().to_string();
        assert!(error.contains("more rows than vtax puts") && seen == 0, "{seen}: {error}");
    }
}
