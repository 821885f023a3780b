//! What TLS costs, split by the connections that it protects: cells that differ in nothing but TLS are put beside each other.

use vtax_plan::model::{Cell, FtpTls, FtpTlsMode, FtpWorkload, Service, ServiceKind, TlsVersion, Workload};

use crate::context::Context;
use crate::data::RunData;
use crate::format::{much_within, quantity, span, tax as ratio, tax_range};
use crate::html::parts::wide;
use crate::html::table::PlainTable;
use crate::judged::longer;
use crate::markup::Markup;

const COLUMNS: [(&str, bool); 10] = [
    ("Environment", false),
    ("TLS", false),
    ("Measure", false),
    ("Mean", false),
    ("In the clear", true),
    ("PROT C", true),
    ("PROT P", true),
    ("Control's part", true),
    ("Data's part", true),
    ("Together", true),
];

/// What a transfer costs, by its metric.
const COSTS: [(&str, &str); 2] = [("latency_mean", "time"), ("cpu_per_request", "CPU time")];

/// A cell with TLS beside those that differ from it in nothing else.
struct Pair<'a> {
    /// With TLS, on data connections too where there is such a cell.
    cell: &'a Cell,
    tls: &'a FtpTls,
    clear: &'a Cell,
    /// With TLS on control connections only.
    control: Option<&'a Cell>,
}

impl<'a> Pair<'a> {
    /// With TLS on data connections, too.
    fn all(&self) -> Option<&'a Cell> {
        self.tls.protect.then_some(self.cell)
    }
}

/// All of a plan.
fn pairs(cells: &[Cell]) -> impl Iterator<Item = Pair<'_>> {
    cells.iter().filter_map(|cell| {
        let tls = ftp(cell)?.requests.tls.as_ref()?;
        let clear = cells.iter().find(|other| in_the_clear(other) && same_but_tls(other, cell))?;
        let control = cells.iter().find(|other| is_control(other, tls) && same_but_tls(other, cell));
        // One with PROT C stands in the row of its PROT P, where there is one.
        let is_told =
            !tls.protect && cells.iter().any(|other| is_of(other, tls) && same_but_tls(other, cell));
        (!is_told).then_some(Pair { cell, tls, clear, control })
    })
}

/// A ratio with its interval.
type Told = (f64, (f64, f64));

/// What TLS costs a transfer in the baseline's environment, over all servers: a sentence for all connections, and one for those of control.
pub(super) fn asked(data: &RunData) -> Option<String> {
    let native: Vec<Pair<'_>> =
        pairs(&data.plan.cells).filter(|pair| pair.clear.baseline.is_none()).collect();
    let environments = data.environments(native.iter().map(|pair| pair.clear.id.as_str())).join(" and ");
    let measure = data.plan.measures.first()?.name.as_str();
    let told = |cell: Option<&Cell>, clear: &Cell| -> Option<Told> {
        let ratio = longer(data, (cell?, clear), measure, "latency_mean")?;
        Some((ratio.tax, ratio.interval?))
    };
    let all: Vec<Told> = native.iter().filter_map(|pair| told(pair.all(), pair.clear)).collect();
    let control: Vec<Told> = native.iter().filter_map(|pair| told(pair.control, pair.clear)).collect();
    let kinds = [("control and data connections", all), ("control connections only", control)];
    let said = kinds.iter().filter_map(|(on, found)| {
        let much = much_longer(found)?;
        Some(format!("With TLS on {on} a transfer in {environments} takes {much}."))
    });
    let said = said.collect::<Vec<_>>().join(" ");
    (!said.is_empty()).then_some(said)
}

/// From the least to the most of these, and from the lowest end of their intervals to the highest.
fn much_longer(found: &[Told]) -> Option<String> {
    let low = found.iter().map(|(_, (low, _))| *low).reduce(f64::min)?;
    let high = found.iter().map(|(_, (_, high))| *high).reduce(f64::max)?;
    let least = found.iter().map(|(ratio, _)| *ratio).reduce(f64::min)?;
    let most = found.iter().map(|(ratio, _)| *ratio).reduce(f64::max)?;
    Some(match found.len() {
        1 => much_within(least, (low, high), "ns"),
        _ => format!("{}, by server (intervals: {})", span(least, most, "ns"), span(low, high, "ns")),
    })
}

/// The table; nothing where no cell with TLS has one in the clear beside it.
pub(super) fn section(context: &Context) -> Markup {
    let mut table = PlainTable::new("", &COLUMNS);
    let mut any = false;
    for pair in pairs(&context.data.plan.cells) {
        for measure in &context.data.plan.measures {
            for (metric, words) in COSTS {
                let value = |cell: Option<&Cell>| context.center(cell?, &measure.name, metric);
                let (clear, control, all) = (value(Some(pair.clear)), value(pair.control), value(pair.all()));
                if clear.is_none() || (control.is_none() && all.is_none()) {
                    continue;
                }
                any = true;
                let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| quantity(v, "ns"));
                let part = |from: Option<&Cell>, to: Option<&Cell>| {
                    let between =
                        to.zip(from).and_then(|sides| longer(&context.data, sides, &measure.name, metric));
                    part(value(from), value(to), between.and_then(|between| between.interval))
                };
                let (without, control_only, whole) = (Some(pair.clear), pair.control, pair.all());
                let row = [
                    words_of(pair.tls),
                    measure.name.clone(),
                    words.to_owned(),
                    figure(clear),
                    figure(control),
                    figure(all),
                    part(without, control_only),
                    part(control_only, whole),
                    part(without, whole.or(control_only)),
                ];
                table.push(&context.data.place_but_for(pair.cell, &OF_TLS), row);
            }
        }
    }
    if !any {
        return Markup::new();
    }
    let mut m = wide(&table.finish(), COLUMNS.len());
    m.element(
        "p",
        &[("class", "small-print")],
        "Ratios of the cells' typical values; in brackets their 95 % intervals, within rounds, each read alone. The control \
         connection's part is what PROT C makes of transfers in the clear, the data connections' part what PROT P makes of \
         that. Means are of a transfer; with `arrivals_of: sessions` of a \
         whole session. In a closed loop the login is part of the first transfer of a session.",
    );
    m
}

/// Keys of workload and service that the columns tell.
const OF_TLS: [&str; 6] = ["tls", "implicit", "protect", "resume", "version", "cipher"];

fn ftp(cell: &Cell) -> Option<&FtpWorkload> {
    match &cell.workload {
        Workload::Ftp(ftp) => Some(ftp),
        _ => None,
    }
}

fn in_the_clear(cell: &Cell) -> bool {
    ftp(cell).is_some_and(|ftp| ftp.requests.tls.is_none())
}

/// Whether a cell has the same TLS, on control connections only. Resumption is of data connections.
fn is_control(cell: &Cell, tls: &FtpTls) -> bool {
    let own = ftp(cell).and_then(|ftp| ftp.requests.tls.as_ref());
    own.is_some_and(|own| !own.protect && alike(own, tls))
}

/// Whether a cell has the same TLS, on data connections, too.
fn is_of(cell: &Cell, tls: &FtpTls) -> bool {
    let own = ftp(cell).and_then(|ftp| ftp.requests.tls.as_ref());
    own.is_some_and(|own| own.protect && alike(own, tls))
}

fn alike(one: &FtpTls, other: &FtpTls) -> bool {
    (one.mode, one.version, &one.cipher) == (other.mode, other.version, &other.cipher)
}

fn same_but_tls(one: &Cell, other: &Cell) -> bool {
    let (Some(a), Some(b)) = (ftp(one), ftp(other)) else { return false };
    let clear = |workload: &FtpWorkload| {
        let mut workload = workload.clone();
        workload.requests.tls = None;
        workload
    };
    one.environment == other.environment
        && one.path == other.path
        && one.systems == other.systems
        && but_for_beginning(&one.service) == but_for_beginning(&other.service)
        && clear(a) == clear(b)
}

/// A service without when its TLS begins, which goes with its workload.
fn but_for_beginning(service: &Service) -> Service {
    let mut service = service.clone();
    if let ServiceKind::Ftp(o) | ServiceKind::Vsftpd(o) | ServiceKind::Proftpd(o) = &mut service.kind {
        o.implicit = false;
    }
    service
}

/// What the second is of the first, with the interval of that: `1.20x (1.10–1.30)`.
fn part(from: Option<f64>, to: Option<f64>, interval: Option<(f64, f64)>) -> String {
    let (Some(from), Some(to)) = (from, to) else { return "-".to_owned() };
    let interval = interval.map_or_else(String::new, |(low, high)| format!(" ({})", tax_range(low, high)));
    format!("{}{interval}", ratio(to / from))
}

fn words_of(tls: &FtpTls) -> String {
    let mut words = match tls.mode {
        FtpTlsMode::Explicit => "explicit",
        FtpTlsMode::Implicit => "implicit",
    }
    .to_owned();
    match tls.version {
        Some(TlsVersion::V12) => words.push_str(", TLS 1.2"),
        Some(TlsVersion::V13) => words.push_str(", TLS 1.3"),
        None => {}
    }
    if let Some(cipher) = &tls.cipher {
        words.push_str(&format!(", {cipher}"));
    }
    if tls.protect && !tls.resume {
        words.push_str(", not resumed");
    }
    words
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::FtpServerOptions;

    use super::*;

    #[test]
    fn parts_are_told_with_their_intervals() {
        assert_eq!(part(Some(1e6), Some(1.2e6), Some((1.1, 1.3))), "1.20x (1.10–1.30)");
        assert_eq!(part(Some(1e6), Some(0.9e6), None), "0.90x");
        assert_eq!(part(None, Some(1.0), None), "-");
    }

    /// A server whose TLS begins with the connection serves nobody in the clear: there the same one begins otherwise.
    #[test]
    fn when_tls_begins_makes_no_other_server() {
        let plan = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: vsftpd\nworkload: ftp\nmeasure: throughput\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let clear = &plan.cells[0];
        let with = |change: fn(&mut FtpServerOptions)| {
            let mut cell = clear.clone();
            let ServiceKind::Vsftpd(options) = &mut cell.service.kind else { panic!("{:?}", cell.service) };
            change(options);
            same_but_tls(&cell, clear)
        };
        assert!(with(|options| options.implicit = true));
        assert!(!with(|options| options.require_reuse = true));
        assert!(!with(|options| options.port += 1));
    }

    #[test]
    fn tls_is_alike_whatever_it_protects() {
        let tls =
            FtpTls { mode: FtpTlsMode::Explicit, protect: true, resume: true, version: None, cipher: None };
        assert!(alike(&tls, &FtpTls { protect: false, resume: false, ..tls.clone() }));
        assert!(!alike(&tls, &FtpTls { version: Some(TlsVersion::V12), ..tls.clone() }));
        assert_eq!(words_of(&FtpTls { resume: false, ..tls }), "explicit, not resumed");
    }
}
