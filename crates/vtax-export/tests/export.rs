//! A made-up run, written for other tools and read back.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use vtax_export::send::Receiver;
use vtax_export::{ExportError, ParquetFile, otlp};
use vtax_fixture::{Options, create};
use vtax_report::Report;

fn report(directory: &std::path::Path) -> Report {
    let options = Options { repetitions: 4, seconds: 1, rate: 300, ..Options::default() };
    Report::read(&create(&directory.join("run"), &options).unwrap()).unwrap()
}

#[test]
fn a_parquet_file_has_every_figure_and_every_trial() {
    let dir = tempfile::tempdir().unwrap();
    let report = report(dir.path());
    let path = dir.path().join("figures.parquet");
    let mut file = ParquetFile::create(&path).unwrap();
    let rows = file.add(&report).unwrap();
    assert_eq!(file.add(&report).unwrap(), rows, "several runs go into one file");
    file.finish().unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let (mut trials, mut figures, mut invalid, mut sum) = (BTreeSet::new(), 0, 0, 0.0);
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        trials.insert(row.get_int(4).unwrap());
        assert_eq!(row.get_string(1).unwrap(), &report.plan().name);
        match row.get_bool(13).unwrap() {
            true => {
                figures += 1;
                sum += row.get_double(17).unwrap();
            }
            false => {
                invalid += 1;
                assert!(row.get_string(14).unwrap().starts_with("generator-limited"));
                assert!(row.get_double(17).is_err(), "it has no figure");
            }
        }
    }
    let known = report.figures();
    assert_eq!((trials.len(), figures), (report.trials().len(), 2 * known.len()));
    assert_eq!(invalid, 2 * report.summary().trials.iter().filter(|t| !t.valid).count());
    assert_eq!(figures + invalid, 2 * rows);
    assert!((sum / 2.0 / known.iter().map(|f| f.value).sum::<f64>() - 1.0).abs() < 1e-9);
}

/// A run that couldn't be read cost what was there before.
#[test]
fn what_was_there_stays_until_a_parquet_file_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let report = report(dir.path());
    let place = dir.path().join("files");
    std::fs::create_dir(&place).unwrap();
    let (path, link) = (place.join("figures.parquet"), dir.path().join("link"));
    std::fs::write(&path, "of before").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let names = || std::fs::read_dir(&place).unwrap().count();
    let mut file = ParquetFile::create(&link).unwrap();
    file.add(&report).unwrap();
    assert_eq!((std::fs::read(&path).unwrap(), names()), (b"of before".to_vec(), 2));
    drop(file);
    assert_eq!((std::fs::read(&path).unwrap(), names()), (b"of before".to_vec(), 1));
    let mut file = ParquetFile::create(&link).unwrap();
    file.add(&report).unwrap();
    file.finish().unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"PAR1"));
    assert!(link.is_symlink() && names() == 1);
    let error = ParquetFile::create(&place.join("missing/file")).unwrap_err();
    assert!(error.is_bad_input(), "{error}");
}

/// The link was replaced by the file.
#[test]
fn a_link_to_what_is_not_there_yet_stays_one() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let [link, second, target] =
        ["link", "second", "place/figures.parquet"].map(|name| dir.path().join(name));
    std::fs::create_dir(dir.path().join("place")).unwrap();
    symlink("second", &link).unwrap();
    symlink("place/figures.parquet", &second).unwrap();
    drop(ParquetFile::create(&link).unwrap());
    assert!(!target.exists() && std::fs::read_dir(dir.path().join("place")).unwrap().count() == 0);
    ParquetFile::create(&link).unwrap().finish().unwrap();
    assert!(link.is_symlink() && second.is_symlink());
    assert!(std::fs::read(&target).unwrap().starts_with(b"PAR1"));
    let ring = dir.path().join("ring");
    symlink("ring", &ring).unwrap();
    assert!(ParquetFile::create(&ring).is_err() && ring.is_symlink());
}

#[test]
fn otlp_has_a_point_for_each_figure_and_a_span_for_each_trial() {
    let dir = tempfile::tempdir().unwrap();
    let report = report(dir.path());
    let metrics = otlp::metrics(&report);
    let all = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let points = |m: &Value| m["gauge"]["dataPoints"].as_array().unwrap().len();
    let own: usize =
        all.iter().filter(|m| !m["name"].as_str().unwrap().starts_with("vtax.tax")).map(points).sum();
    assert_eq!(own, report.figures().len());
    let tax = all.iter().find(|m| m["name"] == "vtax.tax").unwrap();
    assert_eq!(points(tax), report.summary().comparisons.iter().filter(|c| c.tax.is_some()).count());
    let traces = otlp::traces(&report);
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let ids: BTreeSet<&str> = spans.iter().map(|s| s["spanId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an identity of its own");
    let root = spans.iter().find(|s| s["parentSpanId"] == "").unwrap()["spanId"].as_str().unwrap();
    assert_eq!(spans.iter().filter(|s| s["parentSpanId"] == root).count(), report.trials().len());
    for span in spans {
        let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
        assert_eq!(
            (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
            (32, 16)
        );
    }
    let failed = spans.iter().filter(|s| s["status"]["code"] == 2).count();
    assert_eq!(failed, report.summary().trials.iter().filter(|t| !t.valid).count());
}

/// A receiver that takes one request and answers with this status.
fn receive(status: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let (mut got, mut part) = (Vec::new(), [0; 4096]);
        while !got.ends_with(b"]}") {
            let n = stream.read(&mut part).unwrap();
            assert!(n > 0, "the request ended early");
            got.extend_from_slice(&part[..n]);
        }
        stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).unwrap();
        String::from_utf8(got).unwrap()
    });
    (url, thread)
}

#[test]
fn a_receiver_gets_json_and_its_refusal_is_told() {
    let (url, thread) = receive("200 OK");
    Receiver::parse(&url).unwrap().post("/v1/metrics", b"{\"resourceMetrics\":[]}").unwrap();
    let request = thread.join().unwrap();
    assert!(request.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains("Content-Type: application/json\r\n") && request.contains("Content-Length: 22\r\n")
    );
    let (url, thread) = receive("415 Unsupported Media Type");
    let error = Receiver::parse(&url).unwrap().post("/v1/traces", b"{\"resourceSpans\":[]}").unwrap_err();
    thread.join().unwrap();
    assert!(matches!(&error, ExportError::Refused { answer, .. } if answer.contains("415")), "{error}");
    let error = Receiver::parse(&url).unwrap().post("/v1/traces", b"]}").unwrap_err();
    assert!(matches!(error, ExportError::Unreachable { .. }), "{error}");
}
