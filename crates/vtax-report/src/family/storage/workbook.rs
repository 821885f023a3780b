//! Sheets laid out as `iozone -Rb` lays its own out: a report for each operation, file sizes down, record sizes across, and where tests
//! have several processes the throughput report. In kilobytes per second.

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};
use vtax_plan::model::StorageOperation;

use super::sweep::{Point, Sweep, not_durable};
use super::throughput::throughput;
use crate::data::RunData;
use crate::sheet::text;

/// Bytes of iozone's kilobyte.
pub(super) const KILOBYTE: f64 = 1024.0;

/// Adds the sheet where there is anything for it.
pub(super) fn sheets(data: &RunData, sweeps: &[Sweep<'_>], book: &mut Workbook) -> Result<(), XlsxError> {
    if sweeps.is_empty() {
        return Ok(());
    }
    let sheet = book.add_worksheet().set_name("iozone")?;
    let bold = Format::new().set_bold();
    let head = "The top row is records sizes, the left column is file sizes, both in Kbytes; Kbytes per second until durable, of random operations over the recorded time";
    sheet.write_string_with_format(0, 0, head, &bold)?;
    let mut line = 2;
    if let Some(note) = not_durable(sweeps) {
        sheet.write_string(1, 0, note)?;
        line = 3;
    }
    for sweep in sweeps {
        for (place, environment) in sweep.environments.iter().enumerate() {
            line = reports(sweep, place, &environment.label, sheet, line)?;
        }
    }
    sheet.set_column_width(0, 28)?;
    if sweeps.iter().flat_map(|sweep| &sweep.points).any(|point| point.test.shape.processes > 1) {
        throughput(data, sweeps, book.add_worksheet().set_name("iozone throughput")?)?;
    }
    Ok(())
}

/// What iozone calls the report of an operation, and the operation in its throughput report; `None` where it has none.
pub(super) fn words(operation: StorageOperation) -> Option<(&'static str, &'static str)> {
    use StorageOperation as Op;
    Some(match operation {
        Op::Write => ("Writer report", "Initial write"),
        Op::Rewrite => ("Re-writer report", "Rewrite"),
        Op::Read => ("Reader report", "Read"),
        Op::ReRead => ("Re-Reader report", "Re-read"),
        Op::RandomRead => ("Random read report", "Random read"),
        Op::RandomWrite => ("Random write report", "Random write"),
        Op::BackwardRead => ("Backward read report", "Reverse Read"),
        Op::StridedRead => ("Stride read report", "Stride read"),
        Op::Mix { .. } => ("Mixed workload report", "Mixed workload"),
        Op::Create | Op::List | Op::Remove => return None,
    })
}

/// The reports of one environment from a line on; the line behind them.
fn reports(
    sweep: &Sweep<'_>,
    place: usize,
    environment: &str,
    sheet: &mut Worksheet,
    from: u32,
) -> Result<u32, XlsxError> {
    let bold = Format::new().set_bold();
    let whole = Format::new().set_num_format("0");
    let mut line = from;
    let (sizes, records) = (sweep.sizes(), sweep.records());
    for operation in sweep.operations() {
        let Some((report, _)) = words(operation) else { continue };
        let label = if sweep.label.is_empty() { String::new() } else { format!(", {}", sweep.label) };
        let title = format!("{report}, {environment}{label}");
        sheet.write_string_with_format(line, 0, text(&title), &bold)?;
        for (column, record) in (1..).zip(&records) {
            sheet.write_number_with_format(line + 1, column, *record as f64 / KILOBYTE, &bold)?;
        }
        for (row, size) in (line + 2..).zip(&sizes) {
            sheet.write_number_with_format(row, 0, *size as f64 / KILOBYTE, &bold)?;
            for (column, record) in (1..).zip(&records) {
                let point = sweep.at(operation, *size, *record);
                if let Some(value) = point.and_then(|point| kilobytes(point, place)) {
                    sheet.write_number_with_format(row, column, value, &whole)?;
                }
            }
        }
        line += 3 + sizes.len() as u32;
    }
    Ok(line)
}

/// Kilobytes per second of an environment in a test.
pub(super) fn kilobytes(point: &Point<'_>, place: usize) -> Option<f64> {
    let value = point.value(place)?;
    let bytes = if point.in_bytes() { value } else { value * point.test.shape.record.0 as f64 };
    Some(bytes / KILOBYTE)
}
