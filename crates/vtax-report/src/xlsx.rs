//! The tables as one workbook.

use rust_xlsxwriter::{Color, Format, Workbook, Worksheet, XlsxError};
use vtax_store::summary::Verdict;

use crate::csv;
use crate::format::utc;
use crate::ims::tables;
use crate::links;
use crate::report::Report;

/// Longest text a cell may hold.
const CELL_LIMIT: usize = 32_767;

/// Makes `report.xlsx`.
pub(crate) fn workbook(report: &Report) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    verdicts(report, book.add_worksheet())?;
    crate::ims::workbook::sheets(report, &mut book)?;
    links::workbook::sheets(report, &mut book)?;
    // The same tables as the CSV files: one definition, two forms.
    for (file, text) in csv::files(report) {
        let name = match file {
            "comparisons.csv" => "Comparisons",
            "metrics.csv" => "Metrics",
            "trials.csv" => "Trials",
            _ => tables::sheet(file)
                .or_else(|| crate::ft::tables::sheet(file))
                .or_else(|| links::tables::sheet(file))
                .unwrap_or("Capacity steps"),
        };
        table(book.add_worksheet().set_name(name)?, &text)?;
    }
    provenance(report, book.add_worksheet())?;
    book.save_to_buffer()
}

pub(crate) fn header() -> Format {
    Format::new().set_bold().set_background_color(Color::RGB(0x00E8_ECE8))
}

fn verdicts(report: &Report, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    sheet.set_name("Verdict")?;
    let wrap = Format::new().set_text_wrap().set_bold().set_font_size(13.0);
    sheet.merge_range(0, 0, 0, 9, &text(&report.summary.headline), &wrap)?;
    sheet.set_row_height(0, 54.0)?;
    let names = [
        "Group",
        "Environment",
        "Metric",
        "Measure",
        "Value",
        "Unit",
        "Tax",
        "Low",
        "High",
        "Verdict",
        "Why",
    ];
    for (column, name) in (0u16..).zip(names) {
        sheet.write_string_with_format(2, column, name, &header())?;
    }
    let mut row = 3;
    for r in crate::table::rows(&report.data, &report.summary) {
        let texts = [(0, &r.group), (1, &r.environment), (3, &r.measure)];
        for (column, value) in texts {
            sheet.write_string(row, column, text(value))?;
        }
        sheet.write_string(row, 2, r.label)?;
        if let Some(v) = &r.value {
            sheet.write_number(row, 4, v.center)?.write_string(row, 5, &v.unit)?;
        }
        match &r.comparison {
            None => {
                sheet.write_string(row, 9, "baseline")?;
            }
            Some(c) => {
                let plain = Format::new().set_num_format("0.00");
                let (low, high) = c.interval.unzip();
                let numbers = [(6, c.tax), (7, low.or(c.at_least)), (8, high.or(c.at_most))];
                for (column, value) in numbers.into_iter().filter_map(|(i, v)| Some((i, v?))) {
                    sheet.write_number_with_format(row, column, value, &plain)?;
                }
                sheet.write_string_with_format(row, 9, csv::verdict(c.verdict), &shade(c.verdict))?;
                sheet.write_string(row, 10, text(&c.reason))?;
            }
        }
        row += 1;
    }
    sheet.set_freeze_panes(3, 0)?;
    if row > 3 {
        sheet.autofilter(2, 0, row - 1, 10)?;
    }
    for (column, width) in
        [18.0, 16.0, 24.0, 12.0, 14.0, 8.0, 9.0, 9.0, 9.0, 13.0, 70.0].into_iter().enumerate()
    {
        sheet.set_column_width(u16::try_from(column).unwrap_or(0), width)?;
    }
    for note in &report.summary.notes {
        row += 1;
        sheet.write_string(row, 0, text(&format!("Note: {note}")))?;
    }
    Ok(())
}

fn shade(verdict: Verdict) -> Format {
    let color = match verdict {
        Verdict::Worse => 0x00FB_E9DF,
        Verdict::Better => 0x00DF_F1EA,
        Verdict::Equivalent => 0x00E4_EBF2,
        Verdict::Inconclusive => 0x00EF_ECE2,
    };
    Format::new().set_background_color(Color::RGB(color))
}

/// Writes a table of this crate's own CSV: numbers as numbers.
fn table(sheet: &mut Worksheet, csv: &str) -> Result<(), XlsxError> {
    let mut rows = 0;
    let mut columns = 0;
    for (row, cells) in (0u32..).zip(parse(csv)) {
        for (column, cell) in (0u16..).zip(cells) {
            columns = columns.max(column);
            match cell.parse::<f64>() {
                _ if row == 0 => sheet.write_string_with_format(row, column, text(&cell), &header())?,
                Ok(number) if number.is_finite() => sheet.write_number(row, column, number)?,
                _ => sheet.write_string(row, column, text(&cell))?,
            };
        }
        rows = row;
    }
    sheet.set_freeze_panes(1, 0)?;
    sheet.autofilter(0, 0, rows, columns)?;
    sheet.autofit();
    Ok(())
}

/// Takes RFC 4180 apart again.
fn parse(csv: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut inside = false;
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        let cell = rows.last_mut().and_then(|r| r.last_mut());
        match c {
            '"' if inside && chars.peek() == Some(&'"') => {
                chars.next();
                cell.into_iter().for_each(|cell| cell.push('"'));
            }
            '"' => inside = !inside,
            ',' if !inside => rows.last_mut().into_iter().for_each(|r| r.push(String::new())),
            '\r' if !inside => {}
            '\n' if !inside => rows.push(vec![String::new()]),
            c => cell.into_iter().for_each(|cell| cell.push(c)),
        }
    }
    // What follows the last line's end is no row.
    rows.pop();
    rows
}

fn provenance(report: &Report, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    sheet.set_name("Provenance")?;
    let p = &report.data.provenance;
    let mut facts = vec![
        ("plan".to_owned(), report.data.plan.name.clone()),
        ("question".to_owned(), report.data.plan.description.clone()),
        ("vtax".to_owned(), p.vtax_version.clone()),
        ("command".to_owned(), p.command_line.join(" ")),
        ("seed".to_owned(), p.seed.to_string()),
        ("started".to_owned(), utc(p.started_unix_ms)),
        ("processor".to_owned(), format!("{}, {} CPUs", p.host.cpu_model, p.host.cpus)),
        ("system".to_owned(), format!("{}, Linux {}", p.host.distribution, p.host.kernel)),
    ];
    if let Some(a) = &p.accelerator {
        facts.push(("accelerator".to_owned(), format!("{}: {}", a.kind, a.reason)));
    }
    for (name, program) in [("QEMU", &p.qemu), ("container runtime", &p.container_runtime)] {
        if let Some(f) = program {
            facts.push((name.to_owned(), format!("{}: {}", f.version, f.command.join(" "))));
        }
    }
    facts.extend(p.services.iter().map(|(cell, f)| (format!("service in {cell}"), f.version.clone())));
    facts.extend(p.limits.iter().map(|(k, v)| (format!("limit on {k}"), v.clone())));
    facts.extend(p.packages.iter().map(|(k, v)| (format!("package {k}"), v.clone())));
    for (row, (name, value)) in (0u32..).zip(&facts) {
        sheet.write_string(row, 0, text(name))?.write_string(row, 1, text(value))?;
    }
    sheet.set_column_width(0, 26)?.set_column_width(1, 100)?;
    Ok(())
}

pub(crate) fn text(text: &str) -> String {
    text.chars().take(CELL_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn csv_comes_apart_as_it_was_put_together() {
        let rows = super::parse("a,b\r\n\"x,\"\"y\"\"\n\",2\r\n");
        assert_eq!(rows, [vec!["a", "b"], vec!["x,\"y\"\n", "2"]]);
    }
}
