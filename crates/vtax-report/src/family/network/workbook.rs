//! The study's tables as sheets, in its own layout with what was found here beside it.

use rust_xlsxwriter::{Color, Format, Workbook, Worksheet, XlsxError};

use super::bench::{self, Bench};
use super::study;
use super::transfers::{Grid, grid, one_of_several};
use crate::context::Context;
use crate::sheet::{header, text};

/// Adds a sheet per set of tests: the study's tables, one below the other.
pub(crate) fn sheets(context: &Context, book: &mut Workbook) -> Result<(), XlsxError> {
    for (i, bench) in bench::of(&context.data).benches.iter().enumerate() {
        let Some(study) = bench.study else { continue };
        let grids: Vec<(&study::Table, Grid)> =
            study.tables.iter().filter_map(|t| Some((t, grid(bench, study, t)?))).collect();
        if grids.is_empty() {
            continue;
        }
        let name = if i == 0 { "Tables II-VI".to_owned() } else { format!("Tables II-VI ({})", i + 1) };
        sheet(bench, &grids, book.add_worksheet().set_name(&name)?)?;
    }
    Ok(())
}

fn sheet(bench: &Bench<'_>, grids: &[(&study::Table, Grid)], sheet: &mut Worksheet) -> Result<(), XlsxError> {
    let bold = Format::new().set_bold();
    let here = match bench.times() {
        Some((_, counted)) => format!("of {} s", counted.as_secs_f64()),
        None => "of various times".to_owned(),
    };
    let only =
        one_of_several(bench).map_or_else(String::new, |variant| format!("; only transfers with {variant}"));
    let title = format!(
        "MB (1,048,576 bytes) in 30 s: mean, and standard deviation in the next column; here {here}, scaled{only}"
    );
    sheet.write_string_with_format(0, 0, text(&title), &bold)?;
    let mut line = 2;
    for (table, grid) in grids {
        let title = format!("Table {}: {}", table.number, table.title);
        sheet.write_string_with_format(line, 0, &title, &bold)?;
        line = grid_at(grid, line + 1, sheet)? + 1;
    }
    sheet.set_column_width(0, 12)?;
    sheet.set_freeze_panes(1, 1)?;
    Ok(())
}

/// Writes a table from a line on; returns the line behind it.
fn grid_at(grid: &Grid, line: u32, sheet: &mut Worksheet) -> Result<u32, XlsxError> {
    let quiet = Format::new().set_background_color(Color::RGB(0x00EF_EFEC));
    sheet.write_string_with_format(line + 1, 0, "Window", &header())?;
    let mut column = 1;
    for (block, shade) in grid.blocks.iter().zip([&quiet, &Format::new()]) {
        for c in &block.columns {
            sheet.write_string_with_format(line, column, block.name, &header())?;
            sheet.write_string_with_format(line + 1, column, text(&c.name), &header())?;
            sheet.write_string_with_format(line + 1, column + 1, "SD", &header())?;
            for (row, amount) in (line + 2..).zip(&c.amounts) {
                let Some(amount) = amount else { continue };
                let number = shade.clone().set_num_format("0.0");
                sheet.write_number_with_format(row, column, amount.mean, &number)?;
                if let Some(sd) = amount.sd {
                    sheet.write_number_with_format(row, column + 1, sd, &number)?;
                }
            }
            sheet.set_column_width(column, 18)?;
            column += 2;
        }
    }
    for (row, window) in (line + 2..).zip(&grid.windows) {
        sheet.write_string_with_format(row, 0, window, &Format::new().set_bold())?;
    }
    Ok(line + 2 + grid.windows.len() as u32)
}
