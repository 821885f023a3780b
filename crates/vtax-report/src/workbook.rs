//! The tables as one workbook.

use rust_xlsxwriter::{Color, Format, Workbook, Worksheet, XlsxError};
use vtax_store::summary::Verdict;

use crate::chapter::Chapter;
use crate::context::Context;
use crate::format::utc;
use crate::general::verdicts::{doubt_name, telling_ends};
use crate::rows::{Row, TOO_FEW};
use crate::sheet::{header, text};
use crate::words::name;

/// Makes `report.xlsx`.
pub(crate) fn workbook(context: &Context, chapters: &[Box<dyn Chapter>]) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    verdicts(context, book.add_worksheet())?;
    for chapter in chapters {
        chapter.sheets(context, &mut book)?;
    }
    for table in chapters.iter().flat_map(|c| c.tables(context)) {
        table.write_to(book.add_worksheet().set_name(table.sheet)?)?;
    }
    provenance(context, book.add_worksheet())?;
    book.save_to_buffer()
}

/// Columns of the first sheet, with their widths.
const COLUMNS: [(&str, f64); 15] = [
    ("Group", 18.0),
    ("Environment", 16.0),
    ("Metric", 24.0),
    ("Measure", 12.0),
    ("Value", 14.0),
    ("Unit", 8.0),
    ("Tax", 9.0),
    ("Low", 9.0),
    ("High", 9.0),
    ("Verdict", 13.0),
    ("Why", 70.0),
    ("Judged by, low", 14.0),
    ("Judged by, high", 14.0),
    ("Read together", 14.0),
    ("Doubt", 18.0),
];

fn verdicts(context: &Context, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    sheet.set_name("Verdict")?;
    let wrap = Format::new().set_text_wrap().set_bold().set_font_size(13.0);
    sheet.merge_range(0, 0, 0, 9, &text(&context.summary.headline), &wrap)?;
    sheet.set_row_height(0, 54.0)?;
    for (column, (name, _)) in (0u16..).zip(COLUMNS) {
        sheet.write_string_with_format(2, column, name, &header())?;
    }
    let mut line = 3;
    for row in context.rows() {
        verdict(row, line, sheet)?;
        line += 1;
    }
    sheet.set_freeze_panes(3, 0)?;
    if line > 3 {
        sheet.autofilter(2, 0, line - 1, 14)?;
    }
    for (column, (_, width)) in (0u16..).zip(COLUMNS) {
        sheet.set_column_width(column, width)?;
    }
    for note in &context.summary.notes {
        line += 1;
        sheet.write_string(line, 0, text(&format!("Note: {note}")))?;
    }
    Ok(())
}

fn verdict(row: &Row, line: u32, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    for (column, value) in [(0, &row.group), (1, &row.environment), (3, &row.measure)] {
        sheet.write_string(line, column, text(value))?;
    }
    sheet.write_string(line, 2, row.label)?;
    if let Some(v) = &row.value {
        // A bound stays a number, so that rows can be sorted, and is seen to be one.
        let form = if v.at_least { "\"≥ \"General" } else { "General" };
        sheet.write_number_with_format(line, 4, v.center, &Format::new().set_num_format(form))?;
        sheet.write_string(line, 5, &v.unit)?;
    }
    if row.too_few {
        sheet.write_string(line, 10, TOO_FEW)?;
    }
    let Some(c) = &row.comparison else {
        if row.position == 0 {
            sheet.write_string(line, 9, "baseline")?;
        }
        return Ok(());
    };
    let plain = Format::new().set_num_format("0.00");
    let (low, high) = c.interval.unzip();
    let [judged_low, judged_high] = telling_ends(c.corrected, c.at_least, c.at_most);
    let numbers =
        [(6, c.tax), (7, low.or(c.at_least)), (8, high.or(c.at_most)), (11, judged_low), (12, judged_high)];
    for (column, value) in numbers.into_iter().filter_map(|(i, v)| Some((i, v?))) {
        sheet.write_number_with_format(line, column, value, &plain)?;
    }
    sheet.write_string_with_format(line, 9, name(c.verdict), &shade(c.verdict))?;
    sheet.write_string(line, 10, text(&c.reason))?;
    if let Some(family) = c.family {
        sheet.write_number(line, 13, family)?;
    }
    if let Some(doubt) = c.doubt {
        sheet.write_string(line, 14, doubt_name(doubt))?;
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

fn provenance(context: &Context, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    sheet.set_name("Provenance")?;
    let p = &context.data.provenance;
    let mut facts = vec![
        ("plan".to_owned(), context.data.plan.name.clone()),
        ("question".to_owned(), context.data.plan.description.clone()),
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
    for (cell, f) in &p.services {
        facts.push((format!("service in {cell}"), f.version.clone()));
        facts.extend(
            f.files
                .iter()
                .map(|(path, hash)| (format!("service in {cell}, SHA-256 of {path}"), hash.clone())),
        );
    }
    facts.extend(p.limits.iter().map(|(k, v)| (format!("limit on {k}"), v.clone())));
    facts.extend(p.packages.iter().map(|(k, v)| (format!("package {k}"), v.clone())));
    for (row, (name, value)) in (0u32..).zip(&facts) {
        sheet.write_string(row, 0, text(name))?.write_string(row, 1, text(value))?;
    }
    sheet.set_column_width(0, 26)?.set_column_width(1, 100)?;
    Ok(())
}
