//! `histograms.hlog`, in the log format of HdrHistogram's own tools, and `intervals.jsonl` beside it.
//!
//! Tags: `latency` are the intervals in order (a log processor that merges them gets the whole),
//! `total` is the whole as recorded and `lateness` the generator's own delay over the whole.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, IntervalLogWriterError, LogEntry, Tag,
};
use serde::{Deserialize, Serialize};
use vtax_load::{Counts, Interval, LatencyHistogram, LoadResult};
use vtax_units::Nanos;

use crate::StoreError;

/// Longest line read: a histogram of 3 digits is at most some hundred KiB as text.
const LINE_LIMIT: u64 = 8 << 20;

const LATENCY: &str = "latency";
const TOTAL: &str = "total";
const LATENESS: &str = "lateness";

/// One line of `intervals.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct IntervalLine {
    start: Nanos,
    counts: Counts,
}

pub(crate) fn write(
    out: &mut impl Write,
    load: &LoadResult,
    started_unix_ms: u64,
    path: &Path,
) -> Result<(), StoreError> {
    let error = |e| StoreError::io("write", path, e);
    let mut serializer = V2DeflateSerializer::new();
    let started = UNIX_EPOCH + Duration::from_millis(started_unix_ms);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[vtax: nanoseconds; Interval_Max in milliseconds]")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(1e6)
        .begin_log_with(out, &mut serializer)
        .map_err(error)?;
    let mut put = |h: &LatencyHistogram, start: Nanos, length: Nanos, tag| {
        log.write_histogram(&h.0, start.into(), length.into(), Tag::new(tag)).map_err(|e| match e {
            IntervalLogWriterError::IoError(e) => error(e),
            IntervalLogWriterError::SerializeError(e) => {
                StoreError::Unwritable { path: path.to_owned(), reason: e.to_string() }
            }
        })
    };
    let ends = load.intervals.iter().skip(1).map(|i| i.start).chain([load.duration]);
    for (interval, end) in load.intervals.iter().zip(ends) {
        put(&interval.latency, interval.start, end.saturating_sub(interval.start), LATENCY)?;
    }
    put(&load.latency, Nanos::ZERO, load.duration, TOTAL)?;
    put(&load.lateness, Nanos::ZERO, load.duration, LATENESS)
}

pub(crate) fn write_intervals(
    out: &mut impl Write,
    intervals: &[Interval],
    path: &Path,
) -> Result<(), StoreError> {
    for interval in intervals {
        let line = IntervalLine { start: interval.start, counts: interval.counts.clone() };
        serde_json::to_writer(&mut *out, &line).map_err(|e| StoreError::io("write", path, e.into()))?;
        out.write_all(b"\n").map_err(|e| StoreError::io("write", path, e))?;
    }
    Ok(())
}

/// Pairs the counts with the histograms of tag `latency`, which were written in the same order.
pub(crate) fn read_intervals(
    (counts, counts_file): (&Path, File),
    (histograms, histograms_file): (&Path, File),
    mut each: impl FnMut(Interval),
) -> Result<(), StoreError> {
    let mut counts_lines = Lines::of(counts, counts_file);
    let mut log = Lines::of(histograms, histograms_file);
    while let Some(line) = counts_lines.next()? {
        let IntervalLine { start, counts: c } =
            serde_json::from_slice(line).map_err(|e| StoreError::damaged_trial(counts, e))?;
        let latency = loop {
            let Some(line) = log.next()? else {
                return Err(StoreError::damaged_trial(
                    histograms,
                    "it has fewer intervals than intervals.jsonl",
                ));
            };
            if let Some(h) = parse_line(line).map_err(|e| StoreError::damaged_trial(histograms, e))? {
                break h;
            }
        };
        each(Interval { start, counts: c, latency, begun: None });
    }
    Ok(())
}

/// The histogram of a line with tag `latency`; `None` for any other line.
fn parse_line(line: &[u8]) -> Result<Option<LatencyHistogram>, String> {
    let Some(entry) = IntervalLogIterator::new(line).next() else { return Ok(None) };
    let interval = match entry {
        Ok(LogEntry::Interval(i)) if i.tag().is_some_and(|t| t.as_str() == LATENCY) => i,
        Ok(_) => return Ok(None),
        Err(_) => return Err("not a line of an HdrHistogram log".to_owned()),
    };
    LatencyHistogram::from_base64(interval.encoded_histogram()).map(Some)
}

/// Lines of bounded length, with their newline, as the log parser wants them.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn of(path: &'a Path, file: File) -> Self {
        Self { path, reader: BufReader::new(file), line: Vec::new() }
    }

    fn next(&mut self) -> Result<Option<&[u8]>, StoreError> {
        self.line.clear();
        (&mut self.reader)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut self.line)
            .map_err(|e| StoreError::io("read", self.path, e))?;
        match self.line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(&self.line)),
            Some(_) => Err(StoreError::damaged_trial(self.path, "its last line is cut off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_bytes_follow_is_refused() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos(5_000));
        let line = |text: &str| format!("Tag=latency,0.000,1.000,5.000,{text}\n");
        let whole = line(&histogram.to_base64().unwrap());
        assert_eq!(parse_line(whole.as_bytes()).unwrap(), Some(histogram));
        // It says that 4 GiB follow.
        let hostile = line("HISTE/////8AAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAA==");
        let refused = parse_line(hostile.as_bytes()).unwrap_err();
        assert!(refused.contains("cut off"), "{refused}");
    }
}
