//! A sheet laid out as `iozone -Rb` lays its own out: a report for each operation, file sizes down, record sizes across, in kilobytes.

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::sweep::Sweep;
use crate::sheet::text;

/// Bytes of iozone's kilobyte.
const KILOBYTE: f64 = 1024.0;

/// Adds the sheet where there is anything for it.
pub(super) fn sheets(sweeps: &[Sweep<'_>], book: &mut Workbook) -> Result<(), XlsxError> {
    if sweeps.is_empty() {
        return Ok(());
    }
    let sheet = book.add_worksheet().set_name("iozone")?;
    let bold = Format::new().set_bold();
    let head = "The top row is records sizes, the left column is file sizes, both in Kbytes; Kbytes per second until durable, of random operations over the recorded time";
    sheet.write_string_with_format(0, 0, head, &bold)?;
    let mut line = 2;
    for sweep in sweeps {
        for (place, environment) in sweep.environments.iter().enumerate() {
            line = reports(sweep, place, &environment.label, sheet, line)?;
        }
    }
    sheet.set_column_width(0, 24)?;
    Ok(())
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
    for operation in sweep.operations().into_iter().filter(|operation| !operation.of_names()) {
        let word = operation.word();
        let title = format!(
            "{word} report, {environment}{}{}",
            if sweep.label.is_empty() { "" } else { ", " },
            sweep.label
        );
        sheet.write_string_with_format(line, 0, text(&title), &bold)?;
        for (column, record) in (1..).zip(&records) {
            sheet.write_number_with_format(line + 1, column, *record as f64 / KILOBYTE, &bold)?;
        }
        for (row, size) in (line + 2..).zip(&sizes) {
            sheet.write_number_with_format(row, 0, *size as f64 / KILOBYTE, &bold)?;
            for (column, record) in (1..).zip(&records) {
                let point = sweep.at(operation, *size, *record);
                let value = point.and_then(|point| {
                    let value = (*point.values.get(place)?)?;
                    Some(if point.in_bytes() { value } else { value * *record as f64 })
                });
                if let Some(value) = value {
                    sheet.write_number_with_format(row, column, value / KILOBYTE, &whole)?;
                }
            }
        }
        line += 3 + sizes.len() as u32;
    }
    Ok(line)
}
