//! `report.html`: one self-contained page.
//!
//! The order is the reader's: the verdict, then the pictures that support it, then the trials
//! behind them, then what is needed to repeat or to doubt it.

mod facts;
mod figures;
mod ft;
mod ft_costs;
mod ft_facts;
mod ims;
mod ims_facts;
mod ims_metrics;
mod links;
mod links_facts;
mod scalability;
mod time;
mod trials;
mod verdict;
mod why;

use vtax_plan::model::{Arrivals, MeasureKind};

use crate::ims::Bench;
use crate::markup::Markup;
use crate::report::Report;
use crate::series;

/// Makes the page; reads the trials' bulk files on the way.
pub(crate) fn page(report: &Report) -> String {
    let data = &report.data;
    let mut damage = report.ims().damage.clone();
    damage.extend(report.ft().damage.iter().cloned());
    let intervals = series::intervals(&report.run, data, &mut damage);
    let densities = series::densities(&report.run, data, &mut damage);
    let probes = series::probes(&report.run, data, &mut damage);
    let rows = crate::table::rows(data, &report.summary);

    let mut main = Markup::new();
    let mut sections = Vec::new();
    let mut section = |id: &'static str, title: &'static str, body: Markup| {
        if !body.is_empty() {
            sections.push((id, title));
            main.open("section", &[("id", id)]).element("h2", &[], title).add(&body).close("section");
        }
    };
    let benches = report.ims();
    let paths = crate::links::of(data);
    section("ims", "IMS benchmark", ims::summary(report, benches));
    section("links", "Paths", links::section(report, &paths));
    section("links-datagrams", "Datagrams and round trips", links_facts::datagrams(data, &paths));
    section("taxes", "Taxes", verdict::taxes(report, &rows));
    section("ft", "Fault tolerance", ft::failovers(report, &rows));
    section("why", "Why these verdicts", why::why(report, &rows));
    section("latency", "Latency", figures::latency(data));
    section("capacity", "Capacity", figures::capacity(data));
    section("scalability", "Scalability", scalability::sweeps(data));
    section("cpu", "Where the tax is paid", figures::cpu(data, &report.summary));
    section("time", "Over time", time::over_time(data, &intervals, &densities));
    section("probes", "What the probes saw", time::probes(data, &probes));
    let arrivals = |bench: &Bench| arrivals(report, bench);
    section("ims-measurements", "IMS measurements", ims_metrics::metrics(benches, arrivals));
    section("ims-failures", "IMS failures and generator", ims_facts::failures(benches));
    section("ims-appendix", "IMS parameters and command lines", ims_facts::appendix(report, benches));
    section("links-trust", "Whether the network figures can be trusted", links_facts::trust(&paths));
    section("left-out", "What doesn't count", why::left_out(report));
    section("trials", "Trials", trials::trials(report));
    section("figures", "All figures", verdict::all_figures(&rows, &report.summary));
    section("provenance", "Where the numbers come from", facts::provenance(report));
    section("repeat", "Repeat it", facts::repeat(report));
    section("words", "Words", facts::glossary(report));

    let mut page = Markup::new();
    page.fixed("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.fixed("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    // Nothing may be fetched: neither by this page nor by anything that slipped into it.
    page.fixed(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">",
    );
    page.element("title", &[], &format!("vtax: {}", data.plan.name));
    let has_ims = !benches.benches.is_empty();
    page.fixed("<style>").fixed(include_str!("style.css"));
    page.fixed(if has_ims { include_str!("ims.css") } else { "" });
    page.fixed(if report.ft().is_empty() { "" } else { include_str!("ft.css") });
    page.fixed(if paths.benches.is_empty() { "" } else { include_str!("links.css") });
    page.fixed("</style></head><body>");
    page.add(&verdict::header(report, &sections));
    page.open("main", &[]);
    page.add(&verdict::verdict(report, &rows, &damage));
    page.add(&main).close("main");
    page.fixed("<div id=\"tip\" role=\"status\" hidden></div>");
    page.fixed("<script>").fixed(include_str!("script.js"));
    page.fixed(if has_ims { include_str!("ims.js") } else { "" }).fixed("</script></body></html>\n");
    page.into_string()
}

/// How a benchmark's attempts followed each other.
fn arrivals(report: &Report, bench: &Bench) -> Option<Arrivals> {
    let measure = report.data.plan.measures.iter().find(|m| m.name == bench.measure)?;
    match &measure.kind {
        MeasureKind::Ims(ims) => Some(ims.arrivals),
        MeasureKind::Latency(latency) => Some(latency.arrivals),
        _ => None,
    }
}

/// A figure with its caption and a key of its series: class, label.
fn figure(caption: &str, keys: &[(&'static str, String)], picture: &Markup) -> Markup {
    let mut m = Markup::new();
    m.open("figure", &[]);
    if !caption.is_empty() {
        m.element("figcaption", &[], caption);
    }
    m.add(&key(keys)).add(picture).close("figure");
    m
}

/// The key of a figure; the page's script turns its entries into switches.
fn key(keys: &[(&'static str, String)]) -> Markup {
    let mut m = Markup::new();
    if keys.len() < 2 {
        return m;
    }
    m.open("ul", &[("class", "key")]);
    for (class, label) in keys {
        m.open("li", &[("class", class), ("data-series", class)]);
        m.fixed("<i></i>").text(label).close("li");
    }
    m.close("ul");
    m
}

/// A table that scrolls by itself where the page is too narrow for it.
fn scrolling(table: &Markup) -> Markup {
    let mut m = Markup::new();
    m.open("div", &[("class", "scroll"), ("tabindex", "0")]).add(table).close("div");
    m
}

/// The head of a table, with a class for columns of numbers.
fn head(m: &mut Markup, columns: &[(&str, bool)]) {
    m.open("thead", &[]).open("tr", &[]);
    for (name, number) in columns {
        m.element("th", &[("scope", "col"), ("class", if *number { "n" } else { "" })], name);
    }
    m.close("tr").close("thead");
}
