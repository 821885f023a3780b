//! What is written, read by those that it is for: pyarrow, DuckDB, and OpenTelemetry's own messages.
//!
//! They are Python's: `VTAX_PYTHON` names an interpreter that has them, such as one of a virtual environment. What is
//! missing is said and skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use vtax_export::{ParquetFile, otlp};
use vtax_fixture::{Options, create};
use vtax_report::Report;
use vtax_sys::require::possible;

fn python() -> PathBuf {
    std::env::var_os("VTAX_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

/// Whether this module is there; says so where it isn't.
fn has(module: &str) -> bool {
    let found = Command::new(python()).args(["-c", &format!("import {module}")]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    possible((!is_there).then(|| format!("Python has no {module} (VTAX_PYTHON names an interpreter)")))
}

/// Runs a script with arguments; what it printed.
fn run(script: &str, arguments: &[&Path]) -> String {
    let output =
        Command::new(python()).arg("-c").arg(script).args(arguments).output().expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

fn made(directory: &Path) -> Report {
    let options = Options { repetitions: 4, seconds: 1, rate: 300, ..Options::default() };
    Report::read(&create(&directory.join("run"), &options).expect("a run")).expect("a report")
}

fn parquet(directory: &Path, report: &Report) -> (PathBuf, usize) {
    let path = directory.join("figures.parquet");
    let mut file = ParquetFile::create(&path).expect("a file");
    let rows = file.add(report).expect("rows");
    file.finish().expect("the end");
    (path, rows)
}

#[test]
fn pyarrow_reads_every_row() {
    if !has("pyarrow.parquet") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let report = made(dir.path());
    let (path, rows) = parquet(dir.path(), &report);
    let script = "import sys, pyarrow.parquet as p\nt = p.read_table(sys.argv[1])\n\
                  print(t.num_rows, t.schema.field('started').type, t.column('value').null_count)";
    let invalid = report.summary().trials.iter().filter(|t| !t.valid).count();
    assert_eq!(run(script, &[&path]), format!("{rows} timestamp[ms, tz=UTC] {invalid}"));
}

#[test]
fn duckdb_finds_the_same_figures() {
    if !has("duckdb") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let report = made(dir.path());
    let (path, _) = parquet(dir.path(), &report);
    let script = "import sys, duckdb\nq = \"select count(*), median(value) from read_parquet(?) where metric = 'capacity' \
                  and environment = 'native'\"\nprint(*duckdb.execute(q, [sys.argv[1]]).fetchone())";
    let answer = run(script, &[&path]);
    let (count, median) = answer.split_once(' ').expect("two numbers");
    let cell = report.summary().cells.iter().find(|c| c.environment == "native" && c.measure == "capacity");
    let metric = &cell.expect("a cell").metrics["capacity"];
    assert_eq!(count, metric.n.to_string());
    let median: f64 = median.parse().expect("a number");
    assert!((median / metric.median - 1.0).abs() < 1e-9, "{median} {}", metric.median);
}

#[test]
fn opentelemetry_knows_every_field() {
    if !has("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let report = made(dir.path());
    let (metrics, traces) = (dir.path().join("metrics.json"), dir.path().join("traces.json"));
    std::fs::write(&metrics, otlp::metrics(&report).to_string()).expect("written");
    std::fs::write(&traces, otlp::traces(&report).to_string()).expect("written");
    // Identities are hexadecimal in OTLP's JSON, where protobuf's own would have base64: they are turned before.
    let script = r"
import base64, json, sys
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as M
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as T
def turn(v):
    if isinstance(v, list): return [turn(x) for x in v]
    if not isinstance(v, dict): return v
    ids = ('traceId', 'spanId', 'parentSpanId')
    return {k: base64.b64encode(bytes.fromhex(x)).decode() if k in ids else turn(x) for k, x in v.items()}
m = ParseDict(json.load(open(sys.argv[1])), M())
t = ParseDict(turn(json.load(open(sys.argv[2]))), T())
points = sum(len(x.gauge.data_points) for x in m.resource_metrics[0].scope_metrics[0].metrics if not x.name.startswith('vtax.tax'))
spans = t.resource_spans[0].scope_spans[0].spans
print(points, len(spans), len(spans[0].trace_id), len(spans[0].span_id))
";
    let answer = run(script, &[&metrics, &traces]);
    let numbers: Vec<usize> = answer.split(' ').map(|n| n.parse().expect("a number")).collect();
    assert_eq!((numbers[0], numbers[2], numbers[3]), (report.figures().len(), 16, 8));
    assert!(numbers[1] > report.trials().len(), "{answer}");
}
