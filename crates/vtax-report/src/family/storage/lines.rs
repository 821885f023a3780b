//! Lines over file size, and over record size.

use vtax_units::Bytes;

use super::sweep::{Point, Sweep, has_intervals, noted};
use crate::format::{quantity, range};
use crate::html::parts::figure;
use crate::markup::Markup;
use crate::plot::scale::Scale;
use crate::plot::xy::{Axis, Series, Stroke, xy};
use crate::plot::{responsive, series};

/// One picture for each operation and value of the other size, where there are several of one.
pub(super) fn lines(sweeps: &[Sweep<'_>]) -> Markup {
    let mut m = Markup::new();
    for sweep in sweeps {
        let (sizes, records) = (sweep.sizes(), sweep.records());
        for operation in sweep.operations() {
            if sizes.len() > 1 {
                for record in &records {
                    let of = format!("{}, records of {}", operation.word(), Bytes(*record));
                    let at = |size| sweep.at(operation, size, *record);
                    m.add(&picture(sweep, &sweep.titled(&of), "file size", &sizes, at));
                }
            }
            if records.len() > 1 {
                for size in &sizes {
                    let of = format!("{}, files of {}", operation.word(), Bytes(*size));
                    let at = |record| sweep.at(operation, *size, record);
                    m.add(&picture(sweep, &sweep.titled(&of), "record size", &records, at));
                }
            }
        }
    }
    if !m.is_empty() {
        let caption = match has_intervals(sweeps) {
            true => "Typical values over trials (median); thin bars are their 95 % intervals.",
            false => "Typical values over trials (median), too few for intervals.",
        };
        m.element("p", &[("class", "small-print")], &noted(caption, sweeps));
    }
    m
}

fn picture<'s, 'a: 's>(
    sweep: &Sweep<'_>,
    of: &str,
    axis: &str,
    places: &[u64],
    at: impl Fn(u64) -> Option<&'s Point<'a>>,
) -> Markup {
    let unit = places.iter().find_map(|place| at(*place)).map_or("/s", Point::unit);
    let mut drawn: Vec<Series> = Vec::new();
    let mut keys = Vec::new();
    for (position, environment) in sweep.environments.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            places.iter().filter_map(|place| Some((*place as f64, at(*place)?.value(position)?))).collect();
        // A single size makes no line.
        if points.len() < 2 {
            continue;
        }
        let color = series(position);
        for place in places {
            drawn.extend(at(*place).and_then(|point| whisker(point, position, *place, &environment.label)));
        }
        keys.push((color, environment.label.clone()));
        drawn.push(Series {
            class: format!("{color} curve"),
            label: environment.label.clone(),
            stroke: Stroke::Marked(position),
            points,
        });
    }
    if drawn.is_empty() {
        return Markup::new();
    }
    let most = drawn.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let ticks: Vec<f64> = places.iter().map(|place| *place as f64).collect();
    let scale = Scale::log_around(ticks.iter().copied());
    let x = Axis { name: axis, unit: "B", scale, ticks: &ticks };
    let name = if unit == "B/s" { "throughput until durable" } else { "operations per second" };
    let y = Axis { name, unit, scale: Scale::from_zero(most), ticks: &[] };
    let description = format!("{of}: {name} over {axis}, one line for each environment");
    figure("", &keys, &responsive(|width| xy(of, &description, (width, 300.0), x, y, &drawn)))
}

/// The interval of a point, as a line up and down.
fn whisker(point: &Point<'_>, position: usize, place: u64, environment: &str) -> Option<Series> {
    let figure = (*point.found.get(position)?)?.figure;
    let (low, high) = figure.interval?;
    let interval = range(figure.center, (low, high), point.unit());
    let label = format!("{environment}: {}, 95 % interval {interval}", quantity(figure.center, point.unit()));
    let x = place as f64;
    let points = vec![(x, low.max(0.0)), (x, high)];
    Some(Series { class: format!("{} thin faint", series(position)), label, stroke: Stroke::Line, points })
}
