//! The tables of steps as sheets, in the form and the colours of the page.

use rust_xlsxwriter::{Color, Format, Workbook, Worksheet, XlsxError};

use super::bench::{Bench, Benches, Environment};
use super::steps::steps;
use super::trial::Standing;
use crate::context::Context;
use crate::sheet::{header, text};

/// Adds a sheet per environment.
pub(super) fn sheets(context: &Context, ims: &Benches, book: &mut Workbook) -> Result<(), XlsxError> {
    let mut taken = Vec::new();
    for bench in &ims.benches {
        for e in &bench.environments {
            let name = sheet_name(bench, e, &taken);
            sheet(context, e, book.add_worksheet().set_name(&name)?)?;
            taken.push(name.to_lowercase());
        }
    }
    Ok(())
}

/// At most 31 characters, without those that a sheet's name may not have, and unlike any other's.
fn sheet_name(bench: &Bench, e: &Environment, taken: &[String]) -> String {
    let clean = |c: char| if c.is_alphanumeric() || " ()-_.".contains(c) { c } else { ' ' };
    let wanted = format!("{} {} {}", bench.measure, e.label, bench.label);
    let base: String = wanted.chars().map(clean).take(26).collect();
    let base = base.trim();
    let tries = (1..).map(|n| if n == 1 { base.to_owned() } else { format!("{base} {n}") });
    let mut free = tries.filter(|name| !name.is_empty() && !taken.contains(&name.to_lowercase()));
    free.next().unwrap_or_default()
}

fn sheet(context: &Context, e: &Environment, sheet: &mut Worksheet) -> Result<(), XlsxError> {
    let record = &context.data.trials[e.shown.record];
    let title = format!(
        "{}, trial {:03}: scenario attempts per second (SAPS) and what became of them",
        e.label, record.index
    );
    sheet.write_string_with_format(0, 0, text(&title), &Format::new().set_bold())?;
    let table = steps(&e.shown.outcome, Some(&e.shown.detail));
    for (column, name) in (0u16..).zip(["Figure", "Unit", "In the study"]) {
        sheet.write_string_with_format(2, column, name, &header())?;
    }
    for (column, c) in (3u16..).zip(&table.columns) {
        let name = if c.decisive { format!("{} (DOC)", c.name) } else { c.name.clone() };
        sheet.write_string_with_format(2, column, text(&name), &shade(c.standing).set_bold())?;
    }
    let mut line = 3;
    for row in &table.rows {
        let plain = if row.strong { Format::new().set_bold() } else { Format::new() };
        sheet.write_string_with_format(line, 0, &row.name, &plain)?;
        sheet.write_string(line, 1, row.unit)?.write_string(line, 2, row.old)?;
        for ((column, value), c) in (3u16..).zip(&row.values).zip(&table.columns) {
            let shade = shade(c.standing).set_num_format("0.00");
            match value {
                Some(v) => sheet.write_number_with_format(line, column, *v, &shade)?,
                None => sheet.write_blank(line, column, &shade)?,
            };
        }
        line += 1;
    }
    sheet.write_string(line, 0, "Limits")?;
    for (column, c) in (3u16..).zip(&table.columns) {
        sheet.write_string_with_format(line, column, text(&c.remark), &shade(c.standing).set_text_wrap())?;
    }
    sheet.set_freeze_panes(3, 3)?;
    sheet.set_column_width(0, 30)?.set_column_width(2, 12)?;
    Ok(())
}

fn shade(standing: Standing) -> Format {
    let color = match standing {
        Standing::Prepared | Standing::Unlimited => 0x00EF_EFEC,
        Standing::Passed => 0x00DF_F1EA,
        Standing::Failed => 0x00FB_E9DF,
    };
    Format::new().set_background_color(Color::RGB(color))
}
