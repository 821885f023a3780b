//! `probes.parquet`: what probes saw, one value per row.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::reader::FileReader;
use vtax_probe::Snapshot;

use crate::StoreError;
use crate::parquet_file::{self, Writer, columns, read_column};

/// Version of `probes.parquet`.
pub const PROBES_VERSION: u32 = 1;

const SCHEMA: &str = "message probes {
    required int64 at_ns (INTEGER(64,false));
    required binary node (STRING);
    required binary source (STRING);
    required binary metric (STRING);
    required binary unit (STRING);
    required double value;
}";

const GROUP: usize = 1 << 16;
const BATCH: usize = 1 << 12;

/// One value a probe saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeRow<'a> {
    /// CLOCK_MONOTONIC of the probed kernel (each guest has its own), in nanoseconds.
    pub at_ns: u64,
    /// Node.
    pub node: &'a str,
    /// What was probed: `cpu0`, `task:123:nginx`, `agent:1:vtax`, `memory`, `if:eth0`, `disk:vda`.
    pub source: &'a str,
    /// Which of its figures: `user`, `rx_bytes`...
    pub metric: &'a str,
    /// `ns`, `B`, `1`.
    pub unit: &'a str,
    /// The value; counters are cumulative.
    pub value: f64,
}

#[derive(Debug)]
pub(crate) struct ProbeWriter {
    file: Writer,
    at: Vec<i64>,
    text: [Vec<ByteArray>; 4],
    value: Vec<f64>,
}

impl ProbeWriter {
    pub(crate) fn create(path: PathBuf) -> Result<Self, StoreError> {
        let properties =
            parquet_file::properties(PROBES_VERSION).set_compression(parquet::basic::Compression::SNAPPY);
        let file = Writer::create(path, SCHEMA, properties.build())?;
        Ok(Self { file, at: Vec::new(), text: Default::default(), value: Vec::new() })
    }

    pub(crate) fn append(&mut self, node: &str, snapshot: &Snapshot) -> Result<(), StoreError> {
        flatten(node, snapshot, |row| {
            self.at.push(row.at_ns.cast_signed());
            for (column, text) in self.text.iter_mut().zip([row.node, row.source, row.metric, row.unit]) {
                column.push(ByteArray::from(text));
            }
            self.value.push(row.value);
        });
        if self.at.len() >= GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let Self { file, at, text, value } = self;
        file.row_group(|column, writer| {
            match writer {
                ColumnWriter::Int64ColumnWriter(w) => w.write_batch(at, None, None)?,
                ColumnWriter::DoubleColumnWriter(w) => w.write_batch(value, None, None)?,
                ColumnWriter::ByteArrayColumnWriter(w) => w.write_batch(&text[column - 1], None, None)?,
                _ => unreachable!("the schema has no other type"),
            };
            Ok(())
        })?;
        self.at.clear();
        self.value.clear();
        self.text.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        if !self.at.is_empty() {
            self.flush()?;
        }
        self.file.finish()
    }
}

/// A snapshot as rows, in the order and with the names of docs/formats.md.
fn flatten(node: &str, snapshot: &Snapshot, mut row: impl FnMut(ProbeRow<'_>)) {
    let at_ns = snapshot.at.0;
    let mut put = |source: &str, unit: &str, values: &[(&str, u64)]| {
        for &(metric, value) in values {
            row(ProbeRow { at_ns, node, source, metric, unit, value: value as f64 });
        }
    };
    for c in &snapshot.cpus {
        let times = [
            ("user", c.user.0),
            ("system", c.system.0),
            ("irq", c.irq.0),
            ("softirq", c.softirq.0),
            ("steal", c.steal.0),
            ("guest", c.guest.0),
            ("idle", c.idle.0),
        ];
        put(&format!("cpu{}", c.cpu), "ns", &times);
    }
    let service = snapshot.tasks.iter().map(|t| ("task", t));
    for (kind, t) in service.chain(snapshot.supervisors.iter().map(|t| ("agent", t))) {
        let source = format!("{kind}:{}:{}", t.id, t.name);
        put(&source, "ns", &[("user", t.user.0), ("system", t.system.0), ("guest", t.guest.0)]);
        if t.resident_bytes > 0 {
            put(&source, "B", &[("resident", t.resident_bytes), ("shared", t.shared_bytes)]);
        }
    }
    let m = &snapshot.memory;
    let memory =
        [("total", m.total_bytes), ("available", m.available_bytes), ("swap_used", m.swap_used_bytes)];
    put("memory", "B", &memory);
    for i in &snapshot.interfaces {
        let source = format!("if:{}", i.name);
        put(&source, "B", &[("rx_bytes", i.rx_bytes), ("tx_bytes", i.tx_bytes)]);
        let packets = [
            ("rx_packets", i.rx_packets),
            ("tx_packets", i.tx_packets),
            ("rx_dropped", i.rx_dropped),
            ("tx_dropped", i.tx_dropped),
        ];
        put(&source, "1", &packets);
    }
    for d in &snapshot.disks {
        let source = format!("disk:{}", d.name);
        put(&source, "B", &[("read_bytes", d.read_bytes), ("write_bytes", d.write_bytes)]);
        put(&source, "1", &[("reads", d.reads), ("writes", d.writes)]);
    }
}

pub(crate) fn read_probes(
    file: File,
    path: &Path,
    mut each: impl FnMut(ProbeRow<'_>),
) -> Result<(), StoreError> {
    let reader = parquet_file::open(file, path, |_| SCHEMA, PROBES_VERSION)?;
    let mut at: Vec<i64> = Vec::new();
    let mut value: Vec<f64> = Vec::new();
    let mut text: [Vec<ByteArray>; 4] = Default::default();
    for group in 0..reader.num_row_groups() {
        let mut readers: [ColumnReader; 6] = columns(path, &reader, group)?;
        loop {
            let n = read_column!(path, readers[0], Int64ColumnReader, BATCH, at)?;
            for (i, column) in text.iter_mut().enumerate() {
                let m = read_column!(path, readers[i + 1], ByteArrayColumnReader, BATCH, *column)?;
                same_length(path, n, m)?;
            }
            same_length(path, n, read_column!(path, readers[5], DoubleColumnReader, BATCH, value)?)?;
            if n == 0 {
                break;
            }
            for i in 0..n {
                let mut texts = [""; 4];
                for (out, column) in texts.iter_mut().zip(&text) {
                    *out = column[i].as_utf8().map_err(|e| StoreError::damaged_trial(path, e))?;
                }
                let [node, source, metric, unit] = texts;
                each(ProbeRow { at_ns: at[i].cast_unsigned(), node, source, metric, unit, value: value[i] });
            }
        }
    }
    Ok(())
}

fn same_length(path: &Path, n: usize, m: usize) -> Result<(), StoreError> {
    if n == m { Ok(()) } else { Err(StoreError::damaged_trial(path, "its columns differ in length")) }
}
